// Ask Perfetto's trace_processor (WASM) about a trace: node trace_processor.mjs BUNDLE TRACE SQL... -> JSON rows of whole numbers;
// on stderr what loading took.
import fs from 'fs';
import path from 'path';
import vm from 'vm';

const [, , bundle, trace, ...questions] = process.argv;
const location = { href: 'http://localhost/engine_bundle.js', toString() { return this.href; } };
const self = { location };
const file = (url) => fs.readFileSync(path.join(bundle, path.basename(String(url))));
const context = vm.createContext({
  self, location, WorkerGlobalScope: function () {}, console: { log() {}, warn() {}, error: console.error },
  performance, TextDecoder, TextEncoder, URL, Response, setTimeout, clearTimeout, crypto, queueMicrotask,
  XMLHttpRequest: class {
    open(method, url) { this.url = url; }
    send() { this.status = 200; this.response = new Uint8Array(file(this.url)).buffer; }
  },
  fetch: async (url) => new Response(file(url), { headers: { 'content-type': 'application/wasm' } }),
});
vm.runInContext(fs.readFileSync(path.join(bundle, 'engine_bundle.js'), 'utf8'), context);
const Bytes = vm.runInContext('Uint8Array', context);

const varint = (number) => {
  const out = [];
  for (let left = BigInt(number); ; left >>= 7n) {
    if (left < 128n) return [...out, Number(left)];
    out.push(Number(left & 127n) | 128);
  }
};
const field = (number, bytes) => Buffer.concat([Buffer.from([...varint(number * 8 + 2), ...varint(bytes.length)]), bytes]);

let answers = [];
let sequence = 0;
const port = { onmessage: null, postMessage: (data) => answers.push(Buffer.from(data)) };
self.onmessage({ data: port });
function call(method, argument) {
  answers = [];
  const head = Buffer.from([8, ...varint(++sequence), 16, ...varint(method)]);
  port.onmessage({ data: new Bytes(field(1, Buffer.concat([head, ...(argument ? [argument] : [])]))) });
  return Buffer.concat(answers);
}

function* fields(bytes) {
  let at = 0;
  const read = () => {
    for (let value = 0n, shift = 0n; ; shift += 7n) {
      value |= BigInt(bytes[at] & 127) << shift;
      if (bytes[at++] < 128) return value;
    }
  };
  while (at < bytes.length) {
    const key = Number(read());
    if ((key & 7) === 0) yield [key >> 3, read()];
    else if ((key & 7) === 1) at += 8;
    else {
      const length = Number(read());
      yield [key >> 3, bytes.subarray(at, (at += length))];
    }
  }
}
// Stream 1 -> query result 203 -> batch 3 -> packed varint cells 2.
function numbers(bytes, [wanted, ...deeper]) {
  const found = [...fields(bytes)].filter(([number, value]) => number === wanted && typeof value !== 'bigint');
  if (deeper.length) return found.flatMap(([, value]) => numbers(value, deeper));
  return found.flatMap(([, value]) => {
    const cells = [];
    let cell = 0n;
    let shift = 0n;
    for (const byte of value) {
      cell |= BigInt(byte & 127) << shift;
      shift += 7n;
      if (byte < 128) { cells.push(Number(cell)); cell = 0n; shift = 0n; }
    }
    return cells;
  });
}

await new Promise((resolve) => setTimeout(resolve, 500));
call(10);
const began = [performance.now(), process.cpuUsage()];
const piece = Buffer.alloc(16 << 20);
const handle = fs.openSync(trace, 'r');
for (let size; (size = fs.readSync(handle, piece)) > 0;) call(1, field(101, piece.subarray(0, size)));
call(2);
const spent = process.cpuUsage(began[1]);
const load = { wall_ms: performance.now() - began[0], cpu_ms: (spent.user + spent.system) / 1e3 };
console.error(JSON.stringify({ ...load, rss_mb: process.resourceUsage().maxRSS >> 10 }));
console.log(JSON.stringify(questions.map((sql) => numbers(call(3, field(103, field(1, Buffer.from(sql)))), [1, 203, 3, 2]))));
process.exit(0);
