# fish completion for sbx.
# The sections between "# verb:" lines are compared with the table of verbs by a test.

# The words so far, without sbx itself.
function __sbx_words
    set -l words (commandline -opc)
    set -q words[2]; and printf '%s\n' $words[2..-1]
end

# Whether the words so far begin with these.
function __sbx_at
    set -l words (__sbx_words)
    for i in (seq (count $argv))
        test "$words[$i]" = "$argv[$i]"; or return 1
    end
end

function __sbx_count
    test (count (__sbx_words)) -eq $argv[1]
end

# Whether a word of `run` already named the program: all that follows is the program's.
function __sbx_has_program
    set -l words (__sbx_words)
    set -l skip 0
    for word in $words[2..-1]
        if test $skip -eq 1
            set skip 0
            continue
        end
        switch $word
            case -p --profile -c --code --isolation --accel --set -i --in -o --out --require -v --mount -P --package -e --env \
                    -w --workdir -m --memory --pids --disk --inodes --cpus --timeout --cpu-time --output-limit \
                    --open-files --status-fd --log-level --lock --on-overlap --deadline --retry --keep \
                    --image --entrypoint
                set skip 1
            case --
                return 0
            case -
                return 0
            case '-*'
            case '*'
                return 0
        end
    end
    return 1
end

# Whether what is being typed is part of a command line behind `--`.
function __sbx_in_command
    __sbx_at run; and contains -- -- (__sbx_words)
end

function __sbx_command
    set -l words (commandline -opc)
    set -l first (math (contains -i -- -- $words) + 1)
    set -l line
    if set -q words[$first]
        set line (string escape -- $words[$first..-1])
    end
    complete -C (string join ' ' -- $line (commandline -ct))
end

function __sbx_run
    __sbx_at run; and not __sbx_has_program
end

function __sbx_exe
    set -l words (commandline -opc)
    echo $words[1]
end

function __sbx_profiles
    set -l exe (__sbx_exe)
    $exe profile ls --names 2>/dev/null
end

function __sbx_images
    set -l exe (__sbx_exe)
    $exe image ls -q 2>/dev/null
end

function __sbx_kernels
    set -l exe (__sbx_exe)
    $exe kernel ls -q 2>/dev/null
end

function __sbx_runs_ids
    set -l exe (__sbx_exe)
    $exe runs ls 2>/dev/null | string match -rv '^ID ' | string replace -r ' .*' ''
end

function __sbx_session_ask
    set -l exe (__sbx_exe)
    $exe session $argv 2>/dev/null
end

# The session that was named first behind `session VERB`.
function __sbx_session_name
    set -l words (__sbx_words)
    set -q words[3]; or return 1
    for word in $words[3..-1]
        if not string match -q -- '-*' $word
            echo $word
            return 0
        end
    end
    return 1
end

function __sbx_sessions
    __sbx_session_ask ls -q
end

function __sbx_session_execs
    __sbx_session_ask logs --names (__sbx_session_name)
end

function __sbx_session_tags
    __sbx_session_ask checkpoints -q (__sbx_session_name)
end

# Whether the first session is still to be named.
function __sbx_session_first
    __sbx_at session $argv; and not __sbx_session_name >/dev/null
end

# Whether it was.
function __sbx_session_more
    __sbx_at session $argv; and __sbx_session_name >/dev/null
end

function __sbx_keys
    set -l exe (__sbx_exe)
    $exe profile schema --keys 2>/dev/null | string replace -r '$' '='
end

set -l sizes '64M 256M 512M 1G 2G 4G unlimited'

complete -c sbx -f
complete -c sbx -n '__sbx_count 0' -s h -l help -d 'Show all verbs'
complete -c sbx -n '__sbx_count 0' -s V -l version -d 'Show the version'
complete -c sbx -n '__sbx_count 0' -a run -d 'Run a program once in a sandbox'
complete -c sbx -n '__sbx_count 0' -a batch -d 'Run a list of jobs'
complete -c sbx -n '__sbx_count 0' -a session -d 'Workspaces that keep their files'
complete -c sbx -n '__sbx_count 0' -a image -d 'Root file systems to run programs in'
complete -c sbx -n '__sbx_count 0' -a kernel -d 'Kernels for virtual machines'
complete -c sbx -n '__sbx_count 0' -a runs -d 'List, show and forget recorded runs'
complete -c sbx -n '__sbx_count 0' -a profile -d 'List, read, check and trust profiles'
complete -c sbx -n '__sbx_count 0' -a doctor -d 'Check what this host can do'
complete -c sbx -n '__sbx_count 0' -a gc -d 'Remove what a killed sbx left'
complete -c sbx -n '__sbx_count 0' -a help -d 'Show the help of a verb'
complete -c sbx -n '__sbx_count 0' -a version -d 'Show the version of sbx'

# verb: run
complete -c sbx -n __sbx_run -F
complete -c sbx -n '__sbx_at run; and __sbx_has_program; and not __sbx_in_command' -F
complete -c sbx -n __sbx_in_command -x -a '(__sbx_command)'
complete -c sbx -n __sbx_run -s p -l profile -x -a '(__sbx_profiles; __fish_complete_suffix .yaml)' -d Profile
complete -c sbx -n __sbx_run -s c -l code -x -d 'Run this text'
complete -c sbx -n __sbx_run -l image -x -a '(__sbx_images)' -d 'Image whose files are the root'
complete -c sbx -n __sbx_run -l entrypoint -x -d 'In front of the command'
complete -c sbx -n __sbx_run -l isolation -x -a 'jail vm auto' -d 'Kind of sandbox'
complete -c sbx -n __sbx_run -l accel -x -a 'kvm tcg' -d 'What runs a virtual machine'
complete -c sbx -n __sbx_run -l set -x -a '(__sbx_keys)' -d 'Set a key of the profile'
complete -c sbx -n __sbx_run -l allow-outside -d 'Let a project profile reach outside its directory'
complete -c sbx -n __sbx_run -s i -l in -r -F -d 'Show a file or directory in /work'
complete -c sbx -n __sbx_run -s o -l out -r -F -d 'Bring out what appears in /work'
complete -c sbx -n __sbx_run -l require -x -d 'Fail unless a file matches'
complete -c sbx -n __sbx_run -s v -l mount -r -F -d 'Show a path of the host'
complete -c sbx -n __sbx_run -s P -l package -x -d 'Add a package'
complete -c sbx -n __sbx_run -s e -l env -x -a '(set -xn)' -d 'Set a variable'
complete -c sbx -n __sbx_run -s w -l workdir -x -d 'Start in this directory'
complete -c sbx -n __sbx_run -s t -l tty -d 'Give the program a terminal'
complete -c sbx -n __sbx_run -l stdin -d 'Hand our stdin to the program'
complete -c sbx -n __sbx_run -s m -l memory -x -a $sizes -d Memory
complete -c sbx -n __sbx_run -l pids -x -d 'Processes and threads'
complete -c sbx -n __sbx_run -l disk -x -a $sizes -d 'Files written'
complete -c sbx -n __sbx_run -l inodes -x -d 'Files made'
complete -c sbx -n __sbx_run -l cpus -x -d Processors
complete -c sbx -n __sbx_run -l timeout -x -a '10s 30s 1m 5m 1h unlimited' -d 'End it after this time'
complete -c sbx -n __sbx_run -l cpu-time -x -a '10s 30s 1m 5m 1h unlimited' -d 'Processor time of all processes'
complete -c sbx -n __sbx_run -l output-limit -x -a $sizes -d 'Output passed on'
complete -c sbx -n __sbx_run -l open-files -x -d 'Open files of each process'
complete -c sbx -n __sbx_run -l lock -x -d 'Run only one of this name at a time'
complete -c sbx -n __sbx_run -l on-overlap -x -a 'skip wait kill' -d 'When the lock is held'
complete -c sbx -n __sbx_run -l deadline -x -a '1m 10m 1h 6h' -d 'End all of it after this time'
complete -c sbx -n __sbx_run -l retry -x -d 'Try again when that may help'
complete -c sbx -n __sbx_run -l record -d 'Keep a record of the run'
complete -c sbx -n __sbx_run -l keep -x -d 'Keep the N newest runs'
complete -c sbx -n __sbx_run -l json -d 'Print one JSON object'
complete -c sbx -n __sbx_run -l status-fd -x -d 'Write the cause to a descriptor'
complete -c sbx -n __sbx_run -s q -l quiet -d 'No warnings'
complete -c sbx -n __sbx_run -l log-level -x -a 'trace debug info warn error off' -d 'Diagnostic messages'
complete -c sbx -n __sbx_run -l dry-run -d 'Print what would be done'
complete -c sbx -n __sbx_run -s h -l help -d 'Show help'
# verb: batch
complete -c sbx -n '__sbx_at batch' -F
complete -c sbx -n '__sbx_at batch' -s j -l jobs -x -d 'Jobs at a time'
complete -c sbx -n '__sbx_at batch' -l results -r -F -d 'Write results to this file'
complete -c sbx -n '__sbx_at batch' -l resume -d 'Run only jobs without a result'
complete -c sbx -n '__sbx_at batch' -l fail-fast -d 'Start no more jobs once one failed'
complete -c sbx -n '__sbx_at batch' -l memory-total -x -a $sizes -d 'Memory of all running jobs'
complete -c sbx -n '__sbx_at batch' -s q -l quiet -d 'No progress, no warnings'
complete -c sbx -n '__sbx_at batch' -l log-level -x -a 'trace debug info warn error off' -d 'Diagnostic messages'
complete -c sbx -n '__sbx_at batch' -s p -l profile -x -a '(__sbx_profiles; __fish_complete_suffix .yaml)' -d Profile
complete -c sbx -n '__sbx_at batch' -l image -x -a '(__sbx_images)' -d 'Image whose files are the root'
complete -c sbx -n '__sbx_at batch' -l entrypoint -x -d 'In front of the command'
complete -c sbx -n '__sbx_at batch' -l isolation -x -a 'jail vm auto' -d 'Kind of sandbox'
complete -c sbx -n '__sbx_at batch' -l accel -x -a 'kvm tcg' -d 'What runs a virtual machine'
complete -c sbx -n '__sbx_at batch' -l set -x -a '(__sbx_keys)' -d 'Set a key of the profile'
complete -c sbx -n '__sbx_at batch' -l allow-outside -d 'Let a project profile reach outside its directory'
complete -c sbx -n '__sbx_at batch' -s i -l in -r -F -d 'Show a file or directory in /work'
complete -c sbx -n '__sbx_at batch' -s o -l out -r -F -d 'Bring out what appears in /work'
complete -c sbx -n '__sbx_at batch' -l require -x -d 'Fail a job unless a file matches'
complete -c sbx -n '__sbx_at batch' -s v -l mount -r -F -d 'Show a path of the host'
complete -c sbx -n '__sbx_at batch' -s P -l package -x -d 'Add a package'
complete -c sbx -n '__sbx_at batch' -s e -l env -x -a '(set -xn)' -d 'Set a variable'
complete -c sbx -n '__sbx_at batch' -s w -l workdir -x -d 'Start in this directory'
complete -c sbx -n '__sbx_at batch' -s m -l memory -x -a $sizes -d Memory
complete -c sbx -n '__sbx_at batch' -l pids -x -d 'Processes and threads'
complete -c sbx -n '__sbx_at batch' -l disk -x -a $sizes -d 'Files written'
complete -c sbx -n '__sbx_at batch' -l inodes -x -d 'Files and directories'
complete -c sbx -n '__sbx_at batch' -l cpus -x -d Processors
complete -c sbx -n '__sbx_at batch' -l timeout -x -a '10s 30s 1m 5m 1h unlimited' -d 'End it after this time'
complete -c sbx -n '__sbx_at batch' -l cpu-time -x -a '10s 30s 1m 5m 1h unlimited' -d 'Processor time'
complete -c sbx -n '__sbx_at batch' -l output-limit -x -a $sizes -d 'Output kept'
complete -c sbx -n '__sbx_at batch' -l open-files -x -d 'Open files of each process'
complete -c sbx -n '__sbx_at batch' -s h -l help -d 'Show help'
# verb: session logs
complete -c sbx -n '__sbx_count 1; and __sbx_at session' -a logs -d 'Print what an exec has written'
complete -c sbx -n '__sbx_session_first logs' -x -a '(__sbx_sessions)'
complete -c sbx -n '__sbx_session_more logs' -x -a '(__sbx_session_execs)'
complete -c sbx -n '__sbx_at session logs' -s f -l follow -d 'Go on until the exec ends'
complete -c sbx -n '__sbx_at session logs' -l since -x -a '1m 10m 1h 1d' -d 'Only from then on'
complete -c sbx -n '__sbx_at session logs' -l stream -x -a 'out err' -d 'Only this one'
complete -c sbx -n '__sbx_at session logs' -l names -d 'Only the numbers of execs'
complete -c sbx -n '__sbx_at session logs' -l json -d 'Print one JSON object a line'
complete -c sbx -n '__sbx_at session logs' -s h -l help -d 'Show help'
# verb: session events
complete -c sbx -n '__sbx_count 1; and __sbx_at session' -a events -d 'Print what happened to a session'
complete -c sbx -n '__sbx_session_first events' -x -a '(__sbx_sessions)'
complete -c sbx -n '__sbx_at session events' -s f -l follow -d 'Go on until the session is removed'
complete -c sbx -n '__sbx_at session events' -l since -x -a '1m 10m 1h 1d' -d 'Only from then on'
complete -c sbx -n '__sbx_at session events' -l json -d 'Print one JSON object a line'
complete -c sbx -n '__sbx_at session events' -s h -l help -d 'Show help'
# verb: session diff
complete -c sbx -n '__sbx_count 1; and __sbx_at session' -a diff -d 'List the files that changed'
complete -c sbx -n '__sbx_session_first diff' -x -a '(__sbx_sessions)'
complete -c sbx -n '__sbx_at session diff' -l since -x -a '(__sbx_session_tags)' -d 'Compare with this checkpoint'
complete -c sbx -n '__sbx_at session diff' -l stat -d 'Count the lines added and deleted'
complete -c sbx -n '__sbx_at session diff' -l patch -d 'Print the changes as git apply takes them'
complete -c sbx -n '__sbx_at session diff' -l json -d 'Print one JSON object a line'
complete -c sbx -n '__sbx_at session diff' -s h -l help -d 'Show help'
# verb: session apply
complete -c sbx -n '__sbx_count 1; and __sbx_at session' -a apply -d 'Bring changes to the host'
complete -c sbx -n '__sbx_session_first apply' -x -a '(__sbx_sessions)'
complete -c sbx -n '__sbx_at session apply' -l dry-run -d 'Print what would be done'
complete -c sbx -n '__sbx_at session apply' -l force -d 'Also write over changes of the host'
complete -c sbx -n '__sbx_at session apply' -s h -l help -d 'Show help'
# verb: session export
complete -c sbx -n '__sbx_count 1; and __sbx_at session' -a export -d 'Make an archive of the workspace'
complete -c sbx -n '__sbx_session_first export' -x -a '(__sbx_sessions)'
complete -c sbx -n '__sbx_at session export' -s o -l output -r -F -d 'Where to'
complete -c sbx -n '__sbx_at session export' -l path -x -d 'What to export'
complete -c sbx -n '__sbx_at session export' -s h -l help -d 'Show help'
# verb: session start
complete -c sbx -n '__sbx_count 1; and __sbx_at session' -a start -d 'Make a session, or start a stopped one'
complete -c sbx -n '__sbx_session_first start' -x -a '(__sbx_sessions)'
complete -c sbx -n '__sbx_at session start' -s p -l profile -x -a '(__sbx_profiles; __fish_complete_suffix .yaml)' -d 'Profile'
complete -c sbx -n '__sbx_at session start' -l image -x -a '(__sbx_images)' -d 'Image whose files are the root'
complete -c sbx -n '__sbx_at session start' -l isolation -x -a 'jail vm auto' -d 'Kind of sandbox'
complete -c sbx -n '__sbx_at session start' -l accel -x -a 'kvm tcg' -d 'What runs a virtual machine'
complete -c sbx -n '__sbx_at session start' -l label -x -d 'A label KEY=VALUE'
complete -c sbx -n '__sbx_at session start' -s e -l env -x -a '(set -xn)' -d 'Set a variable'
complete -c sbx -n '__sbx_at session start' -s w -l workdir -x -d 'Programs start in this directory'
complete -c sbx -n '__sbx_at session start' -s v -l mount -r -F -d 'Show a path of the host'
complete -c sbx -n '__sbx_at session start' -s P -l package -x -d 'Add a package'
complete -c sbx -n '__sbx_at session start' -l set -x -a '(__sbx_keys)' -d 'Set a key of the profile'
complete -c sbx -n '__sbx_at session start' -l allow-outside -d 'Let a project profile reach outside its directory'
complete -c sbx -n '__sbx_at session start' -s m -l memory -x -a $sizes -d 'Memory'
complete -c sbx -n '__sbx_at session start' -l pids -x -d 'Processes and threads'
complete -c sbx -n '__sbx_at session start' -l disk -x -a $sizes -d 'Files written'
complete -c sbx -n '__sbx_at session start' -l cpus -x -d 'Processors'
complete -c sbx -n '__sbx_at session start' -l output-limit -x -a $sizes -d 'Output passed on'
complete -c sbx -n '__sbx_at session start' -l open-files -x -d 'Open files of each process'
complete -c sbx -n '__sbx_at session start' -l json -d 'Print one JSON object'
complete -c sbx -n '__sbx_at session start' -s q -l quiet -d 'No warnings and no name'
complete -c sbx -n '__sbx_at session start' -s h -l help -d 'Show help'
# verb: session cp
complete -c sbx -n '__sbx_count 1; and __sbx_at session' -a cp -d 'Copy files into a session or out of it'
complete -c sbx -n '__sbx_at session cp' -F -a '(__sbx_sessions | string replace -r \'$\' :)' -d 'Session'
complete -c sbx -n '__sbx_at session cp' -l resume -d 'Go on with a copy that was interrupted'
complete -c sbx -n '__sbx_at session cp' -s q -l quiet -d 'No progress bar'
complete -c sbx -n '__sbx_at session cp' -l no-start -d 'Fail when the session is stopped'
complete -c sbx -n '__sbx_at session cp' -l json -d 'Print one JSON object'
complete -c sbx -n '__sbx_at session cp' -s h -l help -d 'Show help'
# verb: session exec
complete -c sbx -n '__sbx_count 1; and __sbx_at session' -a exec -d 'Run a command in a session'
complete -c sbx -n '__sbx_session_first exec' -x -a '(__sbx_sessions)'
complete -c sbx -n '__sbx_at session exec' -s i -l stdin -d 'Hand our stdin to the program'
complete -c sbx -n '__sbx_at session exec' -s t -l tty -d 'Give the program a terminal'
complete -c sbx -n '__sbx_at session exec' -s d -l detach -d 'Do not wait for it'
complete -c sbx -n '__sbx_at session exec' -s e -l env -x -a '(set -xn)' -d 'Set a variable'
complete -c sbx -n '__sbx_at session exec' -s w -l workdir -x -d 'Start in this directory'
complete -c sbx -n '__sbx_at session exec' -s u -l user -x -a 'sbx root' -d 'User inside'
complete -c sbx -n '__sbx_at session exec' -l timeout -x -a '10s 30s 1m 5m 1h unlimited' -d 'End it after this time'
complete -c sbx -n '__sbx_at session exec' -l no-start -d 'Fail when the session is stopped or paused'
complete -c sbx -n '__sbx_at session exec' -l json -d 'Print one JSON object'
complete -c sbx -n '__sbx_at session exec' -s h -l help -d 'Show help'
# verb: session shell
complete -c sbx -n '__sbx_count 1; and __sbx_at session' -a shell -d 'Open a shell in a session'
complete -c sbx -n '__sbx_session_first shell' -x -a '(__sbx_sessions)'
complete -c sbx -n '__sbx_at session shell' -s e -l env -x -a '(set -xn)' -d 'Set a variable'
complete -c sbx -n '__sbx_at session shell' -s w -l workdir -x -d 'Start in this directory'
complete -c sbx -n '__sbx_at session shell' -s u -l user -x -a 'sbx root' -d 'User inside'
complete -c sbx -n '__sbx_at session shell' -l no-start -d 'Fail when the session is stopped or paused'
complete -c sbx -n '__sbx_at session shell' -s h -l help -d 'Show help'
# verb: session ls
complete -c sbx -n '__sbx_count 1; and __sbx_at session' -a ls -d 'List the sessions'
complete -c sbx -n '__sbx_at session ls' -l label -x -d 'Only sessions with this label'
complete -c sbx -n '__sbx_at session ls' -l json -d 'Print one JSON object a line'
complete -c sbx -n '__sbx_at session ls' -s q -l quiet -d 'Names only'
complete -c sbx -n '__sbx_at session ls' -s h -l help -d 'Show help'
# verb: session show
complete -c sbx -n '__sbx_count 1; and __sbx_at session' -a show -d 'Show everything about a session'
complete -c sbx -n '__sbx_session_first show' -x -a '(__sbx_sessions)'
complete -c sbx -n '__sbx_at session show' -l json -d 'Print one JSON object'
complete -c sbx -n '__sbx_at session show' -s h -l help -d 'Show help'
# verb: session ps
complete -c sbx -n '__sbx_count 1; and __sbx_at session' -a ps -d 'List what runs in a session'
complete -c sbx -n '__sbx_session_first ps' -x -a '(__sbx_sessions)'
complete -c sbx -n '__sbx_at session ps' -l json -d 'Print one JSON object a line'
complete -c sbx -n '__sbx_at session ps' -s h -l help -d 'Show help'
# verb: session stats
complete -c sbx -n '__sbx_count 1; and __sbx_at session' -a stats -d 'Show what a session uses'
complete -c sbx -n '__sbx_session_first stats' -x -a '(__sbx_sessions)'
complete -c sbx -n '__sbx_at session stats' -s w -l watch -d 'Again every second'
complete -c sbx -n '__sbx_at session stats' -l json -d 'Print one JSON object'
complete -c sbx -n '__sbx_at session stats' -s h -l help -d 'Show help'
# verb: session wait
complete -c sbx -n '__sbx_count 1; and __sbx_at session' -a wait -d 'Wait for the end of an exec'
complete -c sbx -n '__sbx_session_first wait' -x -a '(__sbx_sessions)'
complete -c sbx -n '__sbx_session_more wait' -x -a '(__sbx_session_execs)'
complete -c sbx -n '__sbx_at session wait' -l json -d 'Print one JSON object'
complete -c sbx -n '__sbx_at session wait' -s h -l help -d 'Show help'
# verb: session kill
complete -c sbx -n '__sbx_count 1; and __sbx_at session' -a kill -d 'Send a signal to programs of a session'
complete -c sbx -n '__sbx_session_first kill' -x -a '(__sbx_sessions)'
complete -c sbx -n '__sbx_session_more kill' -x -a '(__sbx_session_execs)'
complete -c sbx -n '__sbx_at session kill' -s s -l signal -x -a 'TERM KILL INT HUP QUIT USR1 USR2 STOP CONT' -d 'Signal'
complete -c sbx -n '__sbx_at session kill' -l json -d 'Print JSON'
complete -c sbx -n '__sbx_at session kill' -s h -l help -d 'Show help'
# verb: session pause
complete -c sbx -n '__sbx_count 1; and __sbx_at session' -a pause -d 'Freeze the programs of sessions'
complete -c sbx -n '__sbx_at session pause' -x -a '(__sbx_sessions)'
complete -c sbx -n '__sbx_at session pause' -l json -d 'Print JSON'
complete -c sbx -n '__sbx_at session pause' -s h -l help -d 'Show help'
# verb: session resume
complete -c sbx -n '__sbx_count 1; and __sbx_at session' -a resume -d 'Let them go on'
complete -c sbx -n '__sbx_at session resume' -x -a '(__sbx_sessions)'
complete -c sbx -n '__sbx_at session resume' -l json -d 'Print JSON'
complete -c sbx -n '__sbx_at session resume' -s h -l help -d 'Show help'
# verb: session touch
complete -c sbx -n '__sbx_count 1; and __sbx_at session' -a touch -d 'Count as use of sessions'
complete -c sbx -n '__sbx_at session touch' -x -a '(__sbx_sessions)'
complete -c sbx -n '__sbx_at session touch' -l json -d 'Print JSON'
complete -c sbx -n '__sbx_at session touch' -s h -l help -d 'Show help'
# verb: session stop
complete -c sbx -n '__sbx_count 1; and __sbx_at session' -a stop -d 'End what runs and keep the files'
complete -c sbx -n '__sbx_at session stop' -x -a '(__sbx_sessions)'
complete -c sbx -n '__sbx_at session stop' -l time -x -a '10s 30s 1m 5m 1h unlimited' -d 'What programs get to end by themselves'
complete -c sbx -n '__sbx_at session stop' -l json -d 'Print JSON'
complete -c sbx -n '__sbx_at session stop' -s h -l help -d 'Show help'
# verb: session rm
complete -c sbx -n '__sbx_count 1; and __sbx_at session' -a rm -d 'Remove sessions and their files'
complete -c sbx -n '__sbx_at session rm' -x -a '(__sbx_sessions)'
complete -c sbx -n '__sbx_at session rm' -s f -l force -d 'Also one that runs'
complete -c sbx -n '__sbx_at session rm' -l json -d 'Print JSON'
complete -c sbx -n '__sbx_at session rm' -s h -l help -d 'Show help'
# verb: session checkpoint
complete -c sbx -n '__sbx_count 1; and __sbx_at session' -a checkpoint -d 'Keep the present state under a tag'
complete -c sbx -n '__sbx_session_first checkpoint' -x -a '(__sbx_sessions)'
complete -c sbx -n '__sbx_at session checkpoint' -l json -d 'Print one JSON object'
complete -c sbx -n '__sbx_at session checkpoint' -s h -l help -d 'Show help'
# verb: session checkpoints
complete -c sbx -n '__sbx_count 1; and __sbx_at session' -a checkpoints -d 'List or forget the checkpoints'
complete -c sbx -n '__sbx_session_first checkpoints' -x -a '(__sbx_sessions)'
complete -c sbx -n '__sbx_at session checkpoints' -l rm -x -a '(__sbx_session_tags)' -d 'Forget this checkpoint'
complete -c sbx -n '__sbx_at session checkpoints' -l json -d 'Print one JSON object a line'
complete -c sbx -n '__sbx_at session checkpoints' -s q -l quiet -d 'Tags only'
complete -c sbx -n '__sbx_at session checkpoints' -s h -l help -d 'Show help'
# verb: session restore
complete -c sbx -n '__sbx_count 1; and __sbx_at session' -a restore -d 'Go back to a checkpoint'
complete -c sbx -n '__sbx_session_first restore' -x -a '(__sbx_sessions)'
complete -c sbx -n '__sbx_session_more restore' -x -a '(__sbx_session_tags)'
complete -c sbx -n '__sbx_at session restore' -l json -d 'Print one JSON object'
complete -c sbx -n '__sbx_at session restore' -s h -l help -d 'Show help'
# verb: session fork
complete -c sbx -n '__sbx_count 1; and __sbx_at session' -a fork -d 'Make new sessions from this one'
complete -c sbx -n '__sbx_session_first fork' -x -a '(__sbx_sessions)'
complete -c sbx -n '__sbx_at session fork' -l from -x -a '(__sbx_session_tags)' -d 'The state of this checkpoint'
complete -c sbx -n '__sbx_at session fork' -l count -x -d 'So many, numbered from 1'
complete -c sbx -n '__sbx_at session fork' -l json -d 'Print one JSON object a line'
complete -c sbx -n '__sbx_at session fork' -s h -l help -d 'Show help'
# verb: session commit
complete -c sbx -n '__sbx_count 1; and __sbx_at session' -a commit -d 'Make an image of a session'
complete -c sbx -n '__sbx_session_first commit' -x -a '(__sbx_sessions)'
complete -c sbx -n '__sbx_at session commit' -l message -x -d 'What it is'
complete -c sbx -n '__sbx_at session commit' -s e -l env -x -d 'Set a variable'
complete -c sbx -n '__sbx_at session commit' -s u -l user -x -d 'Whom programs run as'
complete -c sbx -n '__sbx_at session commit' -s w -l workdir -x -d 'Where they start'
complete -c sbx -n '__sbx_at session commit' -l entrypoint -x -d 'What every command is put behind'
complete -c sbx -n '__sbx_at session commit' -l json -d 'Print one JSON object'
complete -c sbx -n '__sbx_at session commit' -s h -l help -d 'Show help'
# verb: image import
complete -c sbx -n '__sbx_count 1; and __sbx_at image' -a import -d 'Make an image of an archive or a directory'
complete -c sbx -n '__sbx_at image import' -F
complete -c sbx -n '__sbx_at image import' -l tag -x -d 'The image with this tag'
complete -c sbx -n '__sbx_at image import' -l max-size -x -a '1G 4G 16G 64G' -d 'Refuse a bigger one'
complete -c sbx -n '__sbx_at image import' -s q -l quiet -d 'No progress bar, nothing printed'
complete -c sbx -n '__sbx_at image import' -l json -d 'Print one JSON object'
complete -c sbx -n '__sbx_at image import' -s h -l help -d 'Show help'
# verb: image pull
complete -c sbx -n '__sbx_count 1; and __sbx_at image' -a pull -d 'Get an image from a registry'
complete -c sbx -n '__sbx_at image pull' -l tls-verify -x -a 'true false' -d 'Whether a registry has to prove who it is'
complete -c sbx -n '__sbx_at image pull' -s q -l quiet -d 'No progress bar, nothing printed'
complete -c sbx -n '__sbx_at image pull' -l json -d 'Print one JSON object'
complete -c sbx -n '__sbx_at image pull' -s h -l help -d 'Show help'
# verb: image create
complete -c sbx -n '__sbx_count 1; and __sbx_at image' -a create -d 'Make an image of Debian packages'
complete -c sbx -n '__sbx_at image create' -l debootstrap -x -d 'The release to install'
complete -c sbx -n '__sbx_at image create' -l include -x -d 'Install this as well'
complete -c sbx -n '__sbx_at image create' -l variant -x -a 'minbase apt buildd custom essential extract important required standard' -d 'Which packages to install'
complete -c sbx -n '__sbx_at image create' -s q -l quiet -d 'Show what mmdebstrap says only when it fails'
complete -c sbx -n '__sbx_at image create' -l json -d 'Print one JSON object'
complete -c sbx -n '__sbx_at image create' -s h -l help -d 'Show help'
# verb: image export
complete -c sbx -n '__sbx_count 1; and __sbx_at image' -a export -d 'Make an archive of an image'
complete -c sbx -n '__sbx_count 2; and __sbx_at image export' -x -a '(__sbx_images)'
complete -c sbx -n '__sbx_count 3; and __sbx_at image export' -F
complete -c sbx -n '__sbx_at image export' -l format -x -a 'oci docker tar erofs ext4' -d 'What to write'
complete -c sbx -n '__sbx_at image export' -l compress -x -a 'gzip zstd none' -d 'How it is compressed'
complete -c sbx -n '__sbx_at image export' -s q -l quiet -d 'No progress bar, nothing printed'
complete -c sbx -n '__sbx_at image export' -l json -d 'Print one JSON object'
complete -c sbx -n '__sbx_at image export' -s h -l help -d 'Show help'
# verb: image build
complete -c sbx -n '__sbx_count 1; and __sbx_at image' -a build -d 'Make an image by the steps of a recipe'
complete -c sbx -n '__sbx_at image build' -s f -l file -r -F -d 'The recipe'
complete -c sbx -n '__sbx_at image build' -l no-cache -d 'Carry out every step'
complete -c sbx -n '__sbx_at image build' -s q -l quiet -d 'Do not say which step is on'
complete -c sbx -n '__sbx_at image build' -l json -d 'Print one JSON object'
complete -c sbx -n '__sbx_at image build' -s h -l help -d 'Show help'
# verb: image ls
complete -c sbx -n '__sbx_count 1; and __sbx_at image' -a ls -d 'List the images'
complete -c sbx -n '__sbx_at image ls' -s a -l all -d 'Also states that builds keep'
complete -c sbx -n '__sbx_at image ls' -s q -l quiet -d 'Print names only'
complete -c sbx -n '__sbx_at image ls' -l json -d 'Print one JSON object a line'
complete -c sbx -n '__sbx_at image ls' -s h -l help -d 'Show help'
# verb: image show
complete -c sbx -n '__sbx_count 1; and __sbx_at image' -a show -d 'Show one image in full'
complete -c sbx -n '__sbx_at image show' -x -a '(__sbx_images)'
complete -c sbx -n '__sbx_at image show' -l json -d 'Print one JSON object'
complete -c sbx -n '__sbx_at image show' -s h -l help -d 'Show help'
# verb: image rm
complete -c sbx -n '__sbx_count 1; and __sbx_at image' -a rm -d 'Remove images'
complete -c sbx -n '__sbx_at image rm' -x -a '(__sbx_images)'
complete -c sbx -n '__sbx_at image rm' -l json -d 'Print one JSON object a line'
complete -c sbx -n '__sbx_at image rm' -s h -l help -d 'Show help'
# verb: image gc
complete -c sbx -n '__sbx_count 1; and __sbx_at image' -a gc -d 'Remove layers that nobody uses'
complete -c sbx -n '__sbx_at image gc' -l dry-run -d 'Only say what would be removed'
complete -c sbx -n '__sbx_at image gc' -l budget -x -a '10G 20G 50G 100G none' -d 'What the state directory may take'
complete -c sbx -n '__sbx_at image gc' -l json -d 'Print one JSON object'
complete -c sbx -n '__sbx_at image gc' -s h -l help -d 'Show help'
# verb: kernel install
complete -c sbx -n '__sbx_count 1; and __sbx_at kernel' -a install -d 'Get a kernel for virtual machines'
complete -c sbx -n '__sbx_at kernel install' -l from -r -F -d 'Take it out of this file'
complete -c sbx -n '__sbx_at kernel install' -l cloud -d 'The small kernel for clouds'
complete -c sbx -n '__sbx_at kernel install' -l name -x -d 'What it is called here'
complete -c sbx -n '__sbx_at kernel install' -s q -l quiet -d 'Print nothing but errors'
complete -c sbx -n '__sbx_at kernel install' -l json -d 'Print one JSON object'
complete -c sbx -n '__sbx_at kernel install' -s h -l help -d 'Show help'
# verb: kernel ls
complete -c sbx -n '__sbx_count 1; and __sbx_at kernel' -a ls -d 'List the kernels for virtual machines'
complete -c sbx -n '__sbx_at kernel ls' -s q -l quiet -d 'Print names only'
complete -c sbx -n '__sbx_at kernel ls' -l json -d 'Print one JSON object a line'
complete -c sbx -n '__sbx_at kernel ls' -s h -l help -d 'Show help'
# verb: kernel rm
complete -c sbx -n '__sbx_count 1; and __sbx_at kernel' -a rm -d 'Remove kernels for virtual machines'
complete -c sbx -n '__sbx_at kernel rm' -x -a '(__sbx_kernels)'
complete -c sbx -n '__sbx_at kernel rm' -l json -d 'Print one JSON object a line'
complete -c sbx -n '__sbx_at kernel rm' -s h -l help -d 'Show help'
# verb: runs ls
complete -c sbx -n '__sbx_count 1; and __sbx_at runs' -a ls -d 'List the recorded runs'
complete -c sbx -n '__sbx_at runs ls' -l lock -x -d 'Only runs of this lock'
complete -c sbx -n '__sbx_at runs ls' -l json -d 'Print one JSON object a line'
complete -c sbx -n '__sbx_at runs ls' -s h -l help -d 'Show help'
# verb: runs show
complete -c sbx -n '__sbx_count 1; and __sbx_at runs' -a show -d 'Show one recorded run'
complete -c sbx -n '__sbx_at runs show' -x -a '(__sbx_runs_ids)'
complete -c sbx -n '__sbx_at runs show' -l json -d 'Print one JSON object'
complete -c sbx -n '__sbx_at runs show' -s h -l help -d 'Show help'
# verb: runs rm
complete -c sbx -n '__sbx_count 1; and __sbx_at runs' -a rm -d 'Forget recorded runs'
complete -c sbx -n '__sbx_at runs rm' -x -a '(__sbx_runs_ids)'
complete -c sbx -n '__sbx_at runs rm' -l all -d 'All that have ended'
complete -c sbx -n '__sbx_at runs rm' -l older -x -d 'All that began longer ago'
complete -c sbx -n '__sbx_at runs rm' -s h -l help -d 'Show help'
# verb: profile ls
complete -c sbx -n '__sbx_count 1; and __sbx_at profile' -a ls -d 'List the profiles'
complete -c sbx -n '__sbx_at profile ls' -l names -d 'Only the names'
complete -c sbx -n '__sbx_at profile ls' -l json -d 'Print one JSON object'
complete -c sbx -n '__sbx_at profile ls' -s h -l help -d 'Show help'
# verb: profile show
complete -c sbx -n '__sbx_count 1; and __sbx_at profile' -a show -d 'Print a profile as it was written'
complete -c sbx -n '__sbx_at profile show' -F -a '(__sbx_profiles)'
complete -c sbx -n '__sbx_at profile show' -s h -l help -d 'Show help'
# verb: profile check
complete -c sbx -n '__sbx_count 1; and __sbx_at profile' -a check -d 'Find every mistake in profiles'
complete -c sbx -n '__sbx_at profile check' -F -a '(__sbx_profiles)'
complete -c sbx -n '__sbx_at profile check' -l json -d 'Print one JSON object'
complete -c sbx -n '__sbx_at profile check' -s h -l help -d 'Show help'
# verb: profile explain
complete -c sbx -n '__sbx_count 1; and __sbx_at profile' -a explain -d 'Show values and their origin'
complete -c sbx -n '__sbx_at profile explain' -F -a '(__sbx_profiles)'
complete -c sbx -n '__sbx_at profile explain' -l set -x -a '(__sbx_keys)' -d 'Set a key of the profile'
complete -c sbx -n '__sbx_at profile explain' -l allow-outside -d 'As for run'
complete -c sbx -n '__sbx_at profile explain' -l json -d 'Print one JSON object'
complete -c sbx -n '__sbx_at profile explain' -s h -l help -d 'Show help'
# verb: profile schema
complete -c sbx -n '__sbx_count 1; and __sbx_at profile' -a schema -d 'Print the JSON Schema'
complete -c sbx -n '__sbx_at profile schema' -l keys -d 'Only the keys'
complete -c sbx -n '__sbx_at profile schema' -s h -l help -d 'Show help'
# verb: profile trust
complete -c sbx -n '__sbx_count 1; and __sbx_at profile' -a trust -d 'Let a project profile be used by name'
complete -c sbx -n '__sbx_at profile trust' -F
complete -c sbx -n '__sbx_at profile trust' -l forget -d 'Take the trust back'
complete -c sbx -n '__sbx_at profile trust' -s h -l help -d 'Show help'
# verb: doctor
complete -c sbx -n '__sbx_at doctor' -l json -d 'Print one json object'
complete -c sbx -n '__sbx_at doctor' -l apparmor-profile -d 'Print an apparmor profile for this sbx'
complete -c sbx -n '__sbx_at doctor' -s h -l help -d 'Show help'
# verb: gc
complete -c sbx -n '__sbx_at gc' -l dry-run -d 'Only say what would be removed'
complete -c sbx -n '__sbx_at gc' -l json -d 'Print one json object'
complete -c sbx -n '__sbx_at gc' -s h -l help -d 'Show help'
# verb: help
complete -c sbx -n '__sbx_count 1; and __sbx_at help' -a 'run batch session image kernel runs profile doctor gc help version'
complete -c sbx -n '__sbx_count 2; and __sbx_at help session' -a 'start exec shell ps wait kill logs cp diff apply export checkpoint checkpoints restore fork commit stats events show ls touch pause resume stop rm'
complete -c sbx -n '__sbx_count 2; and __sbx_at help kernel' -a 'install ls rm'
complete -c sbx -n '__sbx_count 2; and __sbx_at help image' -a 'import pull create export ls show rm gc'
complete -c sbx -n '__sbx_count 2; and __sbx_at help runs' -a 'ls show rm'
complete -c sbx -n '__sbx_count 2; and __sbx_at help profile' -a 'ls show check explain schema trust'
complete -c sbx -n '__sbx_at help' -s h -l help -d 'Show help'
# verb: version
complete -c sbx -n '__sbx_at version' -l json -d 'Print one JSON object'
complete -c sbx -n '__sbx_at version' -s h -l help -d 'Show help'
# end of verbs
