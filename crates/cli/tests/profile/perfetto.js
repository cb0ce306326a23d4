// Opens /trace in Perfetto's trace processor, asks the queries, and posts their rows.
//
// The trace processor takes messages TraceProcessorRpc of Perfetto's trace_processor.proto, each as
// field 1 of a stream.

function varint(value) {
  const bytes = [];
  for (let rest = BigInt(value); ; rest >>= 7n) {
    const low = Number(rest & 127n);
    if (rest < 128n) { bytes.push(low); return bytes; }
    bytes.push(low | 128);
  }
}

const field = (number, bytes) => [
  ...varint(number * 8 + 2), ...varint(bytes.length), bytes,
].flat();
const number = (of, value) => [...varint(of * 8), ...varint(value)];
const text = (value) => [...new TextEncoder().encode(value)];

// The fields of a message: pairs of a number and a value, which is a number or bytes.
function* fields(bytes) {
  let at = 0;
  const next = () => {
    let value = 0n;
    for (let shift = 0n; ; shift += 7n) {
      const byte = bytes[at++];
      value |= BigInt(byte & 127) << shift;
      if (byte < 128) return value;
    }
  };
  while (at < bytes.length) {
    const tag = Number(next());
    if ((tag & 7) === 0) yield [tag >> 3, next()];
    else if ((tag & 7) === 1) yield [tag >> 3, bytes.subarray(at, at += 8)];
    else {
      const length = Number(next());
      yield [tag >> 3, bytes.subarray(at, at += length)];
    }
  }
}

function varints(bytes) {
  const all = [];
  for (let at = 0; at < bytes.length;) {
    let value = 0n;
    for (let shift = 0n; ; shift += 7n) {
      const byte = bytes[at++];
      value |= BigInt(byte & 127) << shift;
      if (byte < 128) break;
    }
    all.push(Number(BigInt.asIntN(64, value)));
  }
  return all;
}

// The rows of the batches of a query's result.
function rowsOf(results) {
  let columns = 0;
  const cells = [];
  for (const result of results) {
    for (const [key, value] of fields(result)) {
      if (key === 1) columns++;
      if (key === 2 && value.length) throw new Error(new TextDecoder().decode(value));
      if (key !== 3) continue;
      const parts = { kinds: [], ints: [], floats: [], strings: [] };
      for (const [part, content] of fields(value)) {
        if (part === 1) parts.kinds = varints(content);
        if (part === 2) parts.ints = varints(content);
        if (part === 3) parts.floats = [...new Float64Array(content.slice().buffer)];
        if (part === 5) parts.strings = new TextDecoder().decode(content).split('\0');
      }
      for (const kind of parts.kinds) {
        cells.push([, null, parts.ints, parts.floats, parts.strings][kind]?.shift() ?? null);
      }
    }
  }
  const rows = [];
  while (cells.length) rows.push(cells.splice(0, columns));
  return rows;
}

async function run() {
  const worker = new Worker('/engine_bundle.js');
  const { port1, port2: port } = new MessageChannel();
  worker.onerror = (event) => { throw new Error(event.message); };
  worker.postMessage(port1, [port1]);
  const waiting = [];
  let received = [];
  // Responses come in pieces; a whole message begins with its tag and its length.
  port.onmessage = ({ data }) => {
    received = [...received, ...data];
    for (;;) {
      if (received[0] !== 10) return;
      let [length, at] = [0, 1];
      for (let shift = 0; ; shift += 7, at++) {
        if (at >= received.length) return;
        length += (received[at] & 127) * 2 ** shift;
        if (received[at] < 128) { at++; break; }
      }
      if (received.length < at + length) return;
      const message = Uint8Array.from(received.slice(at, at + length));
      received = received.slice(at + length);
      waiting[0]?.(message);
    }
  };
  let sequence = 0;
  const send = (kind, body) => {
    const message = [...number(1, ++sequence), ...number(2, kind), ...body];
    port.postMessage(Uint8Array.from(field(1, message)));
  };
  const answer = (isLast) => new Promise((resolve) => {
    const all = [];
    waiting[0] = (message) => { all.push(message); if (isLast(message)) resolve(all); };
  });
  const trace = new Uint8Array(await (await fetch('/trace')).arrayBuffer());
  send(1, field(101, [...trace]));
  await answer(() => true);
  send(2, []);
  await answer(() => true);
  const rows = [];
  for (const query of queries) {
    send(3, field(103, field(1, text(query))));
    const results = [];
    await answer((message) => {
      let last = false;
      for (const [key, value] of fields(message)) {
        if (key !== 203) continue;
        results.push(value);
        for (const [part, batch] of fields(value)) {
          if (part !== 3) continue;
          for (const [inner, is] of fields(batch)) last ||= inner === 6 && is === 1n;
        }
        last ||= [...fields(value)].some(([part, error]) => part === 2 && error.length > 0);
      }
      return last;
    });
    rows.push(rowsOf(results));
  }
  return { rows };
}

run().catch((error) => ({ error: `${error.message} ${error.stack}` })).then((answer) => {
  fetch('/result', { method: 'POST', body: JSON.stringify(answer) });
});
