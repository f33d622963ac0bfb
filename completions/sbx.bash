# bash completion for sbx. Works with and without the bash-completion package.
# The sections between "# verb:" lines are compared with the table of verbs by a test.

_sbx_verbs='run batch session image kernel runs profile doctor gc help version --help --version'
_sbx_runs_verbs='ls show rm --help'
_sbx_session_verbs='start exec shell ps wait kill logs cp diff apply export checkpoint checkpoints
  restore fork commit stats events show ls touch pause resume stop rm --help'
_sbx_image_verbs='import pull build create export ls show rm gc --help'
_sbx_kernel_verbs='install ls rm --help'
_sbx_profile_verbs='ls show check explain schema trust --help'

# verb: run
_sbx_run='-p --profile -c --code --image --entrypoint --isolation --accel --set --allow-outside -i --in -o --out --require
  -v --mount -P --package -e --env -w --workdir -t --tty --stdin -m --memory --pids --disk --inodes --cpus --timeout
  --cpu-time --output-limit --open-files --lock --on-overlap --deadline --retry --record --keep
  --json --status-fd -q --quiet --log-level --dry-run -h --help'
# verb: batch
_sbx_batch='-j --jobs --results --resume --fail-fast --memory-total -q --quiet --log-level
  -p --profile --image --entrypoint --isolation --accel --set --allow-outside -i --in -o --out --require -v --mount
  -P --package -e --env -w --workdir -m --memory --pids --disk --inodes --cpus --timeout --cpu-time
  --output-limit --open-files -h --help'
# verb: session logs
_sbx_session_logs='-f --follow --since --stream --names --json -h --help'
# verb: session events
_sbx_session_events='-f --follow --since --json -h --help'
# verb: session diff
_sbx_session_diff='--since --stat --patch --json -h --help'
# verb: session apply
_sbx_session_apply='--dry-run --force -h --help'
# verb: session export
_sbx_session_export='-o --output --path -h --help'
# verb: session start
_sbx_session_start='-p --profile --image --isolation --accel --label -e --env -w --workdir -v --mount
  -P --package --set --allow-outside -m --memory --pids --disk --cpus --output-limit --open-files --json -q --quiet
  -h --help'
# verb: session cp
_sbx_session_cp='--resume -q --quiet --no-start --json -h --help'
# verb: session exec
_sbx_session_exec='-i --stdin -t --tty -d --detach -e --env -w --workdir -u --user --timeout
  --no-start --json -h --help'
# verb: session shell
_sbx_session_shell='-e --env -w --workdir -u --user --no-start -h --help'
# verb: session ls
_sbx_session_ls='--label --json -q --quiet -h --help'
# verb: session show
_sbx_session_show='--json -h --help'
# verb: session ps
_sbx_session_ps='--json -h --help'
# verb: session stats
_sbx_session_stats='-w --watch --json -h --help'
# verb: session wait
_sbx_session_wait='--json -h --help'
# verb: session kill
_sbx_session_kill='-s --signal --json -h --help'
# verb: session pause
_sbx_session_pause='--json -h --help'
# verb: session resume
_sbx_session_resume='--json -h --help'
# verb: session touch
_sbx_session_touch='--json -h --help'
# verb: session stop
_sbx_session_stop='--time --json -h --help'
# verb: session rm
_sbx_session_rm='-f --force --json -h --help'
# verb: session checkpoint
_sbx_session_checkpoint='--json -h --help'
# verb: session checkpoints
_sbx_session_checkpoints='--rm --json -q --quiet -h --help'
# verb: session restore
_sbx_session_restore='--json -h --help'
# verb: session fork
_sbx_session_fork='--from --count --json -h --help'
# verb: session commit
_sbx_session_commit='--message -e --env -u --user -w --workdir --entrypoint --json -h --help'
# verb: image import
_sbx_image_import='--tag --max-size -q --quiet --json -h --help'
# verb: image pull
_sbx_image_pull='--tls-verify -q --quiet --json -h --help'
# verb: image create
_sbx_image_create='--debootstrap --include --variant -q --quiet --json -h --help'
# verb: image export
_sbx_image_export='--format --compress -q --quiet --json -h --help'
# verb: image build
_sbx_image_build='-f --file --no-cache -q --quiet --json -h --help'
# verb: image ls
_sbx_image_ls='-a --all -q --quiet --json -h --help'
# verb: image show
_sbx_image_show='--json -h --help'
# verb: image rm
_sbx_image_rm='--json -h --help'
# verb: image gc
_sbx_image_gc='--dry-run --budget --json -h --help'
# verb: kernel install
_sbx_kernel_install='--from --cloud --name -q --quiet --json -h --help'
# verb: kernel ls
_sbx_kernel_ls='-q --quiet --json -h --help'
# verb: kernel rm
_sbx_kernel_rm='--json -h --help'
# verb: runs ls
_sbx_runs_ls='--lock --json -h --help'
# verb: runs show
_sbx_runs_show='--json -h --help'
# verb: runs rm
_sbx_runs_rm='--all --older -h --help'
# verb: profile ls
_sbx_profile_ls='--names --json -h --help'
# verb: profile show
_sbx_profile_show='-h --help'
# verb: profile check
_sbx_profile_check='--json -h --help'
# verb: profile explain
_sbx_profile_explain='--set --allow-outside --json -h --help'
# verb: profile schema
_sbx_profile_schema='--keys -h --help'
# verb: profile trust
_sbx_profile_trust='--forget -h --help'
# verb: doctor
_sbx_doctor='--json --apparmor-profile -h --help'
# verb: gc
_sbx_gc='--dry-run --json -h --help'
# verb: help
_sbx_help='-h --help'
# verb: version
_sbx_version='--json -h --help'
# end of verbs

# _sbx_takes_value WORD: whether WORD is a flag of run whose value is the next word.
_sbx_takes_value() {
  case $1 in
    -p | --profile | -c | --code | --isolation | --accel | --set | -i | --in | -o | --out | --require) ;;
    -P | --package) ;;
    -v | --mount | -e | --env | -w | --workdir | -m | --memory | --pids | --disk | --cpus) ;;
    --timeout | --inodes | --cpu-time | --output-limit | --open-files | --status-fd | --log-level) ;;
    --lock | --on-overlap | --deadline | --retry | --keep | --image | --entrypoint) ;;
    *) return 1 ;;
  esac
}

_sbx_offer() { # the words of $1 that begin with $2
  local IFS=$' \t\n'
  COMPREPLY=($(compgen -W "$1" -- "$2"))
}

_sbx_offer_lines() { # the lines of stdin that begin with $1
  local line
  COMPREPLY=()
  while IFS= read -r line; do
    [[ $line == "$1"* ]] && COMPREPLY+=("$line")
  done
}

_sbx_offer_files() {
  local line
  compopt -o filenames 2>/dev/null
  COMPREPLY=()
  while IFS= read -r line; do COMPREPLY+=("$line"); done < <(compgen "${2:--f}" -- "$1")
}

_sbx_offer_profiles() {
  _sbx_offer_lines "$1" < <("${COMP_WORDS[0]}" profile ls --names 2>/dev/null)
}

# _sbx_offer_value FLAG BEGINNING: candidates for the value of a flag.
_sbx_offer_value() {
  case $1 in
    -p | --profile) _sbx_offer_profiles "$2" ;;
    --image) _sbx_offer_images "$2" ;;
    -i | --in | -o | --out | -v | --mount) _sbx_offer_files "$2" ;;
    -e | --env) _sbx_offer_lines "$2" < <(compgen -e) ;;
    --isolation) _sbx_offer 'jail vm auto' "$2" ;;
    --accel) _sbx_offer 'kvm tcg' "$2" ;;
    --on-overlap) _sbx_offer 'skip wait kill' "$2" ;;
    --log-level) _sbx_offer 'trace debug info warn error off' "$2" ;;
    --set)
      compopt -o nospace 2>/dev/null
      _sbx_offer_lines "$2" < <("${COMP_WORDS[0]}" profile schema --keys 2>/dev/null | sed 's/$/=/')
      ;;
    -m | --memory | --disk | --output-limit) _sbx_offer '64M 256M 512M 1G 2G 4G unlimited' "$2" ;;
    --timeout | --cpu-time) _sbx_offer '10s 30s 1m 5m 1h unlimited' "$2" ;;
    --deadline) _sbx_offer '1m 10m 1h 6h' "$2" ;;
    *) COMPREPLY=() ;;
  esac
}

# _sbx_program_at: sets `program` to the index of the word that names the program (0: none yet) and
# `dashes` to 1 when it stands behind `--`.
_sbx_program_at() {
  local i
  program=0 dashes=0
  for ((i = 2; i < COMP_CWORD; i++)); do
    if [[ ${COMP_WORDS[i]} == -- ]]; then
      program=$((i + 1)) dashes=1
      return
    elif [[ ${COMP_WORDS[i + 1]} == = && ${COMP_WORDS[i]} == --* ]]; then
      ((i += 2)) # --flag = value
    elif _sbx_takes_value "${COMP_WORDS[i]}"; then
      ((i += 1))
      while [[ ${COMP_WORDS[i + 1]} == [=:]* ]]; do ((i += 2)); done # -e NAME = VALUE
    elif [[ ${COMP_WORDS[i]} == - || ${COMP_WORDS[i]} != -* ]]; then
      program=$i
      return
    fi
  done
}

_sbx_complete_run() {
  local program dashes cur=$1 prev=$2
  _sbx_program_at
  if ((program > 0)); then
    if ((dashes && program == COMP_CWORD)); then
      _sbx_offer_files "$cur" -c
    else
      _sbx_offer_files "$cur"
    fi
  elif [[ $prev == = && ${COMP_WORDS[COMP_CWORD - 2]} == --* ]]; then
    _sbx_offer_value "${COMP_WORDS[COMP_CWORD - 2]}" "$cur"
  elif [[ $cur == = && $prev == --* ]]; then
    _sbx_offer_value "$prev" ''
  elif _sbx_takes_value "$prev"; then
    _sbx_offer_value "$prev" "$cur"
  elif [[ $cur == -* ]]; then
    _sbx_offer "$_sbx_run --" "$cur"
  else
    _sbx_offer_files "$cur"
  fi
}

# The flags of batch whose value is the next word are run's, and a few more.
_sbx_complete_batch() {
  local cur=$1 prev=$2
  if [[ $prev == = && ${COMP_WORDS[COMP_CWORD - 2]} == --* ]]; then
    prev=${COMP_WORDS[COMP_CWORD - 2]}
  elif [[ $cur == = && $prev == --* ]]; then
    cur=
  fi
  case $prev in
    -j | --jobs) COMPREPLY=() ;;
    --results) _sbx_offer_files "$cur" ;;
    --memory-total) _sbx_offer_value -m "$cur" ;;
    *)
      if _sbx_takes_value "$prev"; then
        _sbx_offer_value "$prev" "$cur"
      elif [[ $cur == -* ]]; then
        _sbx_offer "$_sbx_batch" "$cur"
      else
        _sbx_offer_files "$cur"
      fi
      ;;
  esac
}

_sbx_runs_ids() {
  "${COMP_WORDS[0]}" runs ls 2>/dev/null | sed -e 1d -e 's/ .*//'
}

_sbx_complete_runs() {
  local cur=$1 verb=${COMP_WORDS[2]} flags
  if ((COMP_CWORD == 2)); then
    _sbx_offer "$_sbx_runs_verbs" "$cur"
  elif [[ $cur == -* ]]; then
    flags="_sbx_runs_$verb"
    _sbx_offer "${!flags}" "$cur"
  elif [[ $verb == show || $verb == rm ]]; then
    _sbx_offer_lines "$cur" < <(_sbx_runs_ids)
  fi
}

# _sbx_session_words: sets `names` to the words behind `session VERB` that are neither flags nor
# their values, and `dashes` to 1 behind `--`.
_sbx_session_words() {
  local i
  names=() dashes=0
  for ((i = 3; i < COMP_CWORD; i++)); do
    if [[ ${COMP_WORDS[i]} == -- ]]; then
      dashes=1
      return
    elif [[ ${COMP_WORDS[i + 1]} == = && ${COMP_WORDS[i]} == --* ]]; then
      ((i += 2)) # --flag = value
    elif _sbx_session_takes_value "${COMP_WORDS[i]}"; then
      ((i += 1))
    elif [[ ${COMP_WORDS[i]} != -* ]]; then
      names+=("${COMP_WORDS[i]}")
    fi
  done
}

# Whether the word is a flag of a session verb whose value is the next word.
_sbx_session_takes_value() {
  case ${COMP_WORDS[2]}:$1 in
    *:--since | logs:--stream | kill:-s | kill:--signal | exec:-u | exec:--user | shell:-u | shell:--user) ;;
    stop:--time | checkpoints:--rm | *:--from | *:--count | *:--label | *:--grace | *:--interval | *:--format | *:--tag) ;;
    start:* | exec:* | shell:* | *:--timeout) _sbx_takes_value "$1" ;;
    *) return 1 ;;
  esac
}

# _sbx_session_offer_value FLAG BEGINNING
_sbx_session_offer_value() {
  case ${COMP_WORDS[2]}:$1 in
    diff:--since | *:--from | *:--rm) _sbx_offer_lines "$2" < <(_sbx_session_ask checkpoints -q "${names[0]}") ;;
    *:--since) _sbx_offer '1m 10m 1h 1d' "$2" ;;
    logs:--stream) _sbx_offer 'out err' "$2" ;;
    kill:-s | kill:--signal) _sbx_offer 'TERM KILL INT HUP QUIT USR1 USR2 STOP CONT' "$2" ;;
    exec:-u | shell:-u | *:--user) _sbx_offer 'sbx root' "$2" ;;
    *) _sbx_offer_value "$1" "$2" ;;
  esac
}

# Names of sessions, tags of checkpoints, numbers of execs, one a line; nothing when that fails.
_sbx_session_ask() {
  "${COMP_WORDS[0]}" session "$@" 2>/dev/null
}

_sbx_complete_session() {
  local cur=$1 prev=$2 verb=${COMP_WORDS[2]} names dashes flags
  if ((COMP_CWORD == 2)); then
    _sbx_offer "$_sbx_session_verbs" "$cur"
    return
  fi
  _sbx_session_words
  flags="_sbx_session_$verb"
  if ((dashes)); then
    _sbx_offer_files "$cur"
  elif [[ $prev == = && ${COMP_WORDS[COMP_CWORD - 2]} == --* ]]; then
    _sbx_session_offer_value "${COMP_WORDS[COMP_CWORD - 2]}" "$cur"
  elif [[ $cur == = && $prev == --* ]]; then
    _sbx_session_offer_value "$prev" ''
  elif _sbx_session_takes_value "$prev"; then
    _sbx_session_offer_value "$prev" "$cur"
  elif [[ $cur == -* ]]; then
    _sbx_offer "${!flags}" "$cur"
  else
    case $verb:${#names[@]} in
      cp:*)
        _sbx_offer_files "$cur"
        compopt -o nospace 2>/dev/null
        COMPREPLY+=($(_sbx_session_ask ls -q | sed 's/$/:/' | grep "^$cur" 2>/dev/null))
        ;;
      ls:*) ;;
      *:0 | show:* | touch:* | pause:* | resume:* | stop:* | rm:* | start:*)
        _sbx_offer_lines "$cur" < <(_sbx_session_ask ls -q)
        ;;
      logs:1 | wait:* | kill:*)
        _sbx_offer_lines "$cur" < <(_sbx_session_ask logs --names "${names[0]}")
        ;;
      restore:1) _sbx_offer_lines "$cur" < <(_sbx_session_ask checkpoints -q "${names[0]}") ;;
      apply:* | export:*) _sbx_offer_files "$cur" ;;
    esac
  fi
}

# Names of images, one a line; nothing when that fails.
_sbx_images() {
  "${COMP_WORDS[0]}" image ls -q 2>/dev/null
}

# _sbx_offer_images BEGINNING: names may have colons, at which readline cuts words.
_sbx_offer_images() {
  local cur=$1 before='' i=$((COMP_CWORD - 1)) name
  if [[ $cur == : ]]; then cur='' i=$COMP_CWORD; fi
  while ((i > 3)) && [[ ${COMP_WORDS[i]} == : ]]; do
    before=${COMP_WORDS[i - 1]}:$before
    ((i -= 2))
  done
  COMPREPLY=()
  while IFS= read -r name; do
    [[ $name == "$before$cur"* ]] && COMPREPLY+=("${name#"$before"}")
  done < <(_sbx_images)
}

_sbx_complete_image() {
  local cur=$1 prev=$2 verb=${COMP_WORDS[2]} flags
  if ((COMP_CWORD == 2)); then
    _sbx_offer "$_sbx_image_verbs" "$cur"
    return
  fi
  if [[ $prev == = && ${COMP_WORDS[COMP_CWORD - 2]} == --* ]]; then
    prev=${COMP_WORDS[COMP_CWORD - 2]}
  elif [[ $cur == = && $prev == --* ]]; then
    cur=
  fi
  case $verb:$prev in
    pull:--tls-verify) _sbx_offer 'true false' "$cur" ;;
    gc:--budget) _sbx_offer '10G 20G 50G 100G none' "$cur" ;;
    import:--max-size) _sbx_offer '1G 4G 16G 64G' "$cur" ;;
    create:--variant) _sbx_offer 'minbase apt buildd custom essential extract important required standard' "$cur" ;;
    build:-f | build:--file) _sbx_offer_files "$cur" ;;
    export:--format) _sbx_offer 'oci docker tar erofs ext4' "$cur" ;;
    export:--compress) _sbx_offer 'gzip zstd none' "$cur" ;;
    import:--tag | create:--debootstrap | create:--include) COMPREPLY=() ;;
    *)
      if [[ $cur == -* ]]; then
        flags="_sbx_image_$verb"
        _sbx_offer "${!flags}" "$cur"
      else
        case $verb in
          import) _sbx_offer_files "$cur" ;;
          export)
            if ((COMP_CWORD == 3)); then _sbx_offer_images "$cur"; else _sbx_offer_files "$cur"; fi
            ;;
          show | rm) _sbx_offer_images "$cur" ;;
        esac
      fi
      ;;
  esac
}

_sbx_complete_kernel() {
  local cur=$1 prev=$2 verb=${COMP_WORDS[2]} flags
  if ((COMP_CWORD == 2)); then
    _sbx_offer "$_sbx_kernel_verbs" "$cur"
    return
  fi
  if [[ $prev == = && ${COMP_WORDS[COMP_CWORD - 2]} == --* ]]; then
    prev=${COMP_WORDS[COMP_CWORD - 2]}
  elif [[ $cur == = && $prev == --* ]]; then
    cur=
  fi
  case $verb:$prev in
    install:--from) _sbx_offer_files "$cur" ;;
    install:--name) COMPREPLY=() ;;
    *)
      if [[ $cur == -* ]]; then
        flags="_sbx_kernel_$verb"
        _sbx_offer "${!flags}" "$cur"
      elif [[ $verb == rm ]]; then
        _sbx_offer "$("${COMP_WORDS[0]}" kernel ls -q 2>/dev/null)" "$cur"
      fi
      ;;
  esac
}

_sbx_complete_profile() {
  local cur=$1 prev=$2 verb=${COMP_WORDS[2]}
  if ((COMP_CWORD == 2)); then
    _sbx_offer "$_sbx_profile_verbs" "$cur"
    return
  fi
  if [[ $prev == --set ]]; then
    _sbx_offer_value --set "$cur"
  elif [[ $cur == -* ]]; then
    local flags="_sbx_profile_$verb"
    _sbx_offer "${!flags}" "$cur"
  else
    case $verb in
      show | explain | check)
        _sbx_offer_profiles "$cur"
        if [[ $cur == */* || ${#COMPREPLY[@]} -eq 0 ]]; then _sbx_offer_files "$cur"; fi
        ;;
      trust)
        if [[ " ${COMP_WORDS[*]} " == *' --forget '* ]]; then
          _sbx_offer_profiles "$cur"
        else
          _sbx_offer_files "$cur"
        fi
        ;;
    esac
  fi
}

_sbx() {
  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]}
  COMPREPLY=()
  if ((COMP_CWORD == 1)); then
    _sbx_offer "$_sbx_verbs" "$cur"
    return
  fi
  case ${COMP_WORDS[1]} in
    run) _sbx_complete_run "$cur" "$prev" ;;
    batch) _sbx_complete_batch "$cur" "$prev" ;;
    session) _sbx_complete_session "$cur" "$prev" ;;
    image) _sbx_complete_image "$cur" "$prev" ;;
    kernel) _sbx_complete_kernel "$cur" "$prev" ;;
    runs) _sbx_complete_runs "$cur" ;;
    profile) _sbx_complete_profile "$cur" "$prev" ;;
    help)
      if ((COMP_CWORD == 2)); then
        _sbx_offer "run batch session image kernel runs profile doctor gc help version $_sbx_help" "$cur"
      elif [[ ${COMP_WORDS[2]} == profile ]]; then
        _sbx_offer "${_sbx_profile_verbs% --help}" "$cur"
      elif [[ ${COMP_WORDS[2]} == session ]]; then
        _sbx_offer "${_sbx_session_verbs% --help}" "$cur"
      elif [[ ${COMP_WORDS[2]} == image ]]; then
        _sbx_offer "${_sbx_image_verbs% --help}" "$cur"
      elif [[ ${COMP_WORDS[2]} == kernel ]]; then
        _sbx_offer "${_sbx_kernel_verbs% --help}" "$cur"
      elif [[ ${COMP_WORDS[2]} == runs ]]; then
        _sbx_offer "${_sbx_runs_verbs% --help}" "$cur"
      fi
      ;;
    doctor) _sbx_offer "$_sbx_doctor" "$cur" ;;
    gc) _sbx_offer "$_sbx_gc" "$cur" ;;
    version) _sbx_offer "$_sbx_version" "$cur" ;;
  esac
}

complete -F _sbx sbx
