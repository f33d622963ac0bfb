// Runs inside the sandbox that makes a set of Node.js packages; REQUEST is put in front of it.
//
// npm wants a registry: this is one on the loopback interface of the sandbox, out of the tarballs
// of one directory. It leaves node_modules in TARGET and says on stdout, as one JSON object, what
// is in it.
'use strict';
const { spawn } = require('child_process');
const crypto = require('crypto');
const fs = require('fs');
const http = require('http');
const path = require('path');
const zlib = require('zlib');

const WORK = path.join(REQUEST.target, '.sbx-work');
const MOST = 1 << 30; // bytes of one unpacked tarball

class Failed extends Error {
  constructor(code, text) {
    super(text);
    this.code = code;
  }
}

// The package.json that stands first in the tar file, one directory deep.
function manifestOf(tar) {
  for (let at = 0; at + 512 <= tar.length;) {
    const text = (from, size) => {
      const field = tar.subarray(at + from, at + from + size);
      const end = field.indexOf(0);
      return field.subarray(0, end < 0 ? size : end).toString('utf8');
    };
    const name = text(0, 100);
    if (name === '') return null;
    const size = parseInt(text(124, 12).trim() || '0', 8);
    const type = text(156, 1);
    if (!(size >= 0)) return null;
    const full = text(257, 5) === 'ustar' && text(345, 155) ? text(345, 155) + '/' + name : name;
    if ((type === '0' || type === '') && /^[^/]+\/package\.json$/.test(full.replace(/^\.\//, ''))) {
      return JSON.parse(tar.subarray(at + 512, at + 512 + size).toString('utf8'));
    }
    at += 512 + Math.ceil(size / 512) * 512;
  }
  return null;
}

// Numbers before words, words after: enough to find the newest one.
function isNewer(a, b) {
  const cut = (version) => {
    const [main, pre] = version.split('+')[0].split(/-(.*)/s);
    return { main: main.split('.').map(Number), pre: pre || '' };
  };
  const [x, y] = [cut(a), cut(b)];
  if (!x.pre !== !y.pre) return !x.pre;
  for (let i = 0; i < 3; ++i) {
    if (x.main[i] !== y.main[i]) return x.main[i] > y.main[i];
  }
  return x.pre.localeCompare(y.pre, 'en', { numeric: true }) > 0;
}

function readSource() {
  const packages = new Map();
  const files = new Map();
  for (const file of fs.readdirSync(REQUEST.source).sort()) {
    if (!/\.(tgz|tar\.gz)$/.test(file)) continue;
    let manifest = null;
    let data = null;
    try {
      data = fs.readFileSync(path.join(REQUEST.source, file));
      manifest = manifestOf(zlib.gunzipSync(data, { maxOutputLength: MOST }));
    } catch (error) {
      continue; // of no package that npm could take
    }
    if (!manifest || typeof manifest.name !== 'string' || typeof manifest.version !== 'string') {
      continue;
    }
    const integrity = 'sha512-' + crypto.createHash('sha512').update(data).digest('base64');
    if (!packages.has(manifest.name)) packages.set(manifest.name, new Map());
    packages.get(manifest.name).set(manifest.version, { manifest, file, integrity });
    files.set(integrity, file);
  }
  return { packages, files };
}

function packument(name, versions, base) {
  const out = { name, 'dist-tags': {}, versions: {} };
  let latest = null;
  for (const [version, { manifest, file, integrity }] of versions) {
    if (latest === null || isNewer(version, latest)) latest = version;
    out.versions[version] = Object.assign({}, manifest, {
      dist: { tarball: base + '/-/' + encodeURIComponent(file), integrity },
    });
  }
  out['dist-tags'].latest = latest;
  return out;
}

function serve(source, missing) {
  const server = http.createServer((request, response) => {
    const base = 'http://127.0.0.1:' + server.address().port;
    const wanted = decodeURIComponent(request.url.split('?')[0].slice(1));
    if (wanted.startsWith('-/')) {
      const file = path.basename(wanted);
      fs.createReadStream(path.join(REQUEST.source, file))
        .on('error', () => { response.statusCode = 404; response.end(); })
        .pipe(response);
      return;
    }
    const versions = source.packages.get(wanted);
    if (!versions) {
      missing.add(wanted);
      response.statusCode = 404;
      response.end('{}');
      return;
    }
    response.setHeader('content-type', 'application/json');
    response.end(JSON.stringify(packument(wanted, versions, base)));
  });
  return new Promise((done) => server.listen(0, '127.0.0.1', () => done(server)));
}

function npm(words, env) {
  return new Promise((done, failed) => {
    const child = spawn('npm', words, { env, cwd: REQUEST.target, stdio: ['ignore', 'pipe', 'pipe'] });
    let text = '';
    for (const stream of [child.stdout, child.stderr]) {
      stream.on('data', (data) => { if (text.length < 100000) text += data; });
    }
    child.on('error', (error) => failed(error.code === 'ENOENT'
      ? new Failed('no_npm', 'there is no npm') : error));
    child.on('close', (status) => done({ status, text }));
  });
}

// What npm says goes wrong, without its own advice about networks and logs.
function reason(text, missing) {
  if (missing.size > 0) {
    return new Failed('not_found', 'nothing there is called ' + [...missing].sort().join(', '));
  }
  const lines = text.split('\n').map((line) => line.replace(/^npm (error|ERR!) ?/, '')
    .replace(/^(notarget|404|ERESOLVE) /, '').trim()).filter((line) => line && !/^code |^A complete log|^http |debug-0\.log|^In most cases/.test(line));
  const code = /No matching version|notarget/i.test(text) ? 'not_found'
    : /EINTEGRITY/.test(text) ? 'digest' : 'failed';
  return new Failed(code, lines.slice(0, 2).join('; ').slice(0, 800) || 'npm failed');
}

// A package that came in the tarball of another one has that one's.
function digestOf(packages, place) {
  for (let at = place; at; at = at.slice(0, Math.max(0, at.lastIndexOf('/node_modules/')))) {
    if (packages[at] && packages[at].integrity) return packages[at].integrity;
  }
  return '';
}

function lockOf() {
  const lock = JSON.parse(fs.readFileSync(path.join(REQUEST.target, 'package-lock.json'), 'utf8'));
  const packages = [];
  for (const [place, each] of Object.entries(lock.packages)) {
    if (place === '') continue;
    if (!fs.existsSync(path.join(REQUEST.target, place))) { // optional, for another machine
      delete lock.packages[place];
      continue;
    }
    const name = each.name || place.slice(place.lastIndexOf('node_modules/') + 13);
    delete each.resolved;
    packages.push({ name, version: each.version, place, digest: digestOf(lock.packages, place) });
  }
  return { packages, tree: { lockfileVersion: lock.lockfileVersion, packages: lock.packages } };
}

// The lock as npm wants it: with the place where each tarball is now.
function writeLock(source, base) {
  const lock = { name: 'sbx', version: '0.0.0', lockfileVersion: REQUEST.tree.lockfileVersion,
                 requires: true, packages: REQUEST.tree.packages };
  for (const [place, each] of Object.entries(lock.packages)) {
    if (place === '' || !each.integrity) continue;
    const file = source.files.get(each.integrity);
    if (file === undefined) {
      throw new Failed('not_found', 'no tarball there is ' + place.slice(place.lastIndexOf('node_modules/') + 13) +
        ' ' + each.version + ' with the digest of the lock file');
    }
    each.resolved = base + '/-/' + encodeURIComponent(file);
  }
  fs.writeFileSync(path.join(REQUEST.target, 'package.json'), JSON.stringify(
    { name: 'sbx', version: '0.0.0', dependencies: lock.packages[''].dependencies }));
  fs.writeFileSync(path.join(REQUEST.target, 'package-lock.json'), JSON.stringify(lock));
}

async function make() {
  for (const name of ['home', 'tmp', 'cache']) fs.mkdirSync(path.join(WORK, name), { recursive: true });
  const env = { PATH: process.env.PATH, HOME: path.join(WORK, 'home'), LANG: 'C.UTF-8',
                TMPDIR: path.join(WORK, 'tmp') };
  const source = readSource();
  const missing = new Set();
  const server = await serve(source, missing);
  const base = 'http://127.0.0.1:' + server.address().port;
  const options = ['--registry=' + base, '--ignore-scripts', '--no-audit', '--no-fund',
                   '--no-update-notifier', '--cache=' + path.join(WORK, 'cache'), '--omit=dev',
                   '--userconfig=' + path.join(WORK, 'none'), '--loglevel=error', '--no-progress',
                   '--globalconfig=' + path.join(WORK, 'nothing'), '--fetch-retries=0'];
  let done = null;
  try {
    if (REQUEST.tree) {
      writeLock(source, base);
      done = await npm(['ci', ...options], env);
    } else {
      fs.writeFileSync(path.join(REQUEST.target, 'package.json'),
                       JSON.stringify({ name: 'sbx', version: '0.0.0' }));
      done = await npm(['install', ...options, '--', ...REQUEST.wants], env);
    }
  } finally { // else it would be waited for
    server.close();
    server.closeAllConnections();
  }
  if (done.status !== 0) throw reason(done.text, missing);
  return lockOf();
}

make().catch((error) => ({ error: error instanceof Failed ? error.code : 'failed', text: error.message }))
  .then((answer) => {
    fs.rmSync(WORK, { recursive: true, force: true });
    process.stdout.write(JSON.stringify(answer) + '\n');
  });
