// Loads a trace into Perfetto's trace processor (its WebAssembly build, as the UI ships it) and
// answers SQL: node perfetto.cjs DIRECTORY TRACE SQL…, one line of JSON per query, the rows as
// arrays.
//
// The engine's bundle is written for a web worker. What it uses of one is given to it here: the
// global scope, reading its .wasm by XMLHttpRequest, and a port that carries messages of
// trace_processor.proto (TraceProcessorRpcStream), of which the few fields needed are coded here.
"use strict";
const fs = require("fs");
const path = require("path");
const vm = require("vm");

const [directory, trace, ...queries] = process.argv.slice(2);
const APPEND = 1, FINALIZE = 2, QUERY = 3;
const CHUNK = 1 << 24;

const varint = (n) => {
  const bytes = [];
  for (; n >= 0x80; n = Math.floor(n / 128)) bytes.push((n % 128) | 0x80);
  return Buffer.from([...bytes, n]);
};
const number = (field, n) => Buffer.concat([varint(field * 8), varint(n)]);
const bytes = (field, data) => Buffer.concat([varint(field * 8 + 2), varint(data.length), data]);

/// The fields of a message as [field, value]: a BigInt, or the bytes of what has a length.
function* fields(data) {
  let at = 0;
  const next = () => {
    let value = 0n;
    for (let shift = 0n; ; shift += 7n) {
      const byte = data[at++];
      value |= BigInt(byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
  };
  while (at < data.length) {
    const tag = Number(next());
    const length = [null, 8, null, null, null, 4][tag % 8] ?? null;
    if (tag % 8 === 0) yield [tag >> 3, next()];
    else {
      const size = length ?? Number(next());
      yield [tag >> 3, data.subarray(at, (at += size))];
    }
  }
}
const all = (data, field) => [...fields(data)].filter(([f]) => f === field).map(([, v]) => v);
const text = (data, field) => all(data, field).map(String).join("; ");
function* packed(lists) {
  for (const list of lists) {
    let value = 0n, shift = 0n;
    for (const byte of list) {
      value |= BigInt(byte & 0x7f) << shift;
      shift += 7n;
      if (byte < 0x80) {
        yield BigInt.asIntN(64, value);
        (value = 0n), (shift = 0n);
      }
    }
  }
}

/// The cells of a query's answers (QueryResult), row by row.
function* rows(answers) {
  let row = [], width = 0;
  for (const answer of answers) {
    width ||= all(answer, 1).length;
    for (const batch of all(answer, 3)) {
      const integers = packed(all(batch, 2));
      const doubles = all(batch, 3).flatMap((d) =>
        Array.from({ length: d.length / 8 }, (_, n) => d.readDoubleLE(n * 8)));
      const strings = all(batch, 5).flatMap((s) => s.toString().split("\0"));
      for (const kind of packed(all(batch, 1))) {
        const cell = { 1: () => null, 2: () => Number(integers.next().value),
          3: () => doubles.shift(), 4: () => strings.shift() }[Number(kind)];
        row.push(cell());
        if (row.length === width) {
          yield row;
          row = [];
        }
      }
    }
  }
}

const replies = [];
const port = { postMessage: (data) => replies.push(Buffer.from(data)) };
let sequence = 0;
const send = (method, ...rest) => {
  const request = Buffer.concat([number(1, sequence++), number(2, method), ...rest]);
  port.onmessage({ data: new Uint8Array(bytes(1, request)) });
  const messages = replies.splice(0).flatMap((reply) => all(reply, 1));
  for (const message of messages) {
    const fatal = text(message, 5);
    if (fatal) throw new Error(fatal);
  }
  return messages;
};
const check = (messages, result, error) => {
  for (const answer of messages.flatMap((m) => all(m, result))) {
    const reason = text(answer, error);
    if (reason) throw new Error(reason);
  }
};

async function main() {
  process.type = "renderer"; // Or the bundle takes itself to be in Node, which it does not know.
  globalThis.self = globalThis;
  globalThis.WorkerGlobalScope = Object;
  globalThis.location = { href: directory + "/" };
  globalThis.XMLHttpRequest = class {
    open(_, url) { this.url = url; }
    send() { this.response = fs.readFileSync(path.join(directory, path.basename(this.url))); }
  };
  const bundle = path.join(directory, "engine_bundle.js");
  vm.runInThisContext(fs.readFileSync(bundle, "utf8"), bundle);
  globalThis.onmessage({ data: port });
  await new Promise((ready) => setImmediate(ready));

  const file = fs.openSync(trace);
  const chunk = Buffer.alloc(CHUNK);
  for (let read; (read = fs.readSync(file, chunk)) > 0; ) {
    check(send(APPEND, bytes(101, chunk.subarray(0, read))), 201, 2);
  }
  check(send(FINALIZE), 213, 1);
  for (const query of queries) {
    const answers = send(QUERY, bytes(103, bytes(1, Buffer.from(query))))
      .flatMap((message) => all(message, 203));
    const error = answers.map((answer) => text(answer, 2)).join("");
    if (error) throw new Error(`${query}: ${error}`);
    console.log(JSON.stringify([...rows(answers)]));
  }
}
main().then(() => process.exit(0), (error) => {
  console.error(String(error));
  process.exit(1);
});
