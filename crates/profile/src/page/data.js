'use strict';
// Decodes the profile that the page holds: headers in JSON and columns of numbers.
// crates/profile/src/columns states the form.

const NONE = 0xffffffff;
const ROLES = [
  'work', 'wait', 'record', 'fence', 'allocate', 'view', 'release', 'observe', 'launch', 'order',
];
const ROLE = Object.fromEntries(ROLES.map((name, k) => [name, k]));
const ARRAYS = { u8: Uint8Array, u32: Uint32Array, f64: Float64Array };

function bytesOf(base64) {
  if (Uint8Array.fromBase64) return Uint8Array.fromBase64(base64);
  const text = atob(base64);
  const bytes = new Uint8Array(text.length);
  for (let k = 0; k < text.length; k++) bytes[k] = text.charCodeAt(k);
  return bytes;
}

// Decodes one piece: its header, and its columns by name.
async function unpack(base64) {
  const packed = new Blob([bytesOf(base64)]).stream();
  const plain = packed.pipeThrough(new DecompressionStream('gzip'));
  const buffer = await new Response(plain).arrayBuffer();
  const length = new DataView(buffer).getUint32(0, true);
  const header = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, length)));
  const columns = {};
  for (const [name, { type, at, count }] of Object.entries(header.columns)) {
    columns[name] = new ARRAYS[type](buffer, 4 + length + at, count);
  }
  return { header, columns };
}

const isWithin = (part, [from, to]) => part.begin <= to && part.end >= from;

// From the numbers of instructions in the whole run to their positions among those that are read.
class Numbering {
  constructor(parts, isRead) {
    this.size = parts[0].instructions || 1;
    this.isRead = isRead;
    this.first = [];
    this.origin = [];
    this.count = 0;
    parts.forEach(({ instructions }, part) => {
      this.first.push(this.count);
      if (!isRead[part]) return;
      this.origin.push([this.count, part * this.size - this.count]);
      this.count += instructions;
    });
  }

  local(k) {
    const part = Math.floor(k / this.size);
    return this.isRead[part] ? this.first[part] + (k % this.size) : NONE;
  }

  // A place between two positions for what is not read, so that earlier and later can be told.
  position(k) {
    if (k === NONE) return NONE;
    const part = Math.floor(k / this.size);
    return this.isRead[part] ? this.local(k) : this.first[part] - 0.5;
  }

  // The number in the whole run.
  global(k) {
    return k + (this.origin.findLast(([first]) => first <= k)?.[1] ?? 0);
  }
}

// Decodes the parts of the run that a range of the time needs.
async function decode(head, pieces, range) {
  const { parts, total } = head.header;
  let isRead = parts.map((part) => isWithin(part, range));
  if (!isRead.includes(true)) isRead = parts.map(() => true);
  const read = parts.map((_, part) => part).filter((part) => isRead[part]);
  const own = await Promise.all(read.map((part) => unpack(pieces[part + 1])));
  const profile = { ...head.header, ...head.columns, columns: undefined };
  for (const [name, first] of Object.entries(own[0].columns)) {
    const all = own.map(({ columns }) => columns[name]);
    const length = all.reduce((sum, column) => sum + column.length, 0);
    profile[name] = all.length === 1 ? first : new first.constructor(length);
    let at = 0;
    for (const column of all.length > 1 ? all : []) {
      profile[name].set(column, at);
      at += column.length;
    }
  }
  profile.count = profile.name.length;
  profile.numbering = new Numbering(parts, isRead);
  profile.isWhole = !isRead.includes(false);
  profile.from = Math.max(0, range[0]);
  profile.to = Math.min(total, range[1]);
  profile.span = Math.max(1, profile.to - profile.from);
  if (!profile.isWhole) renumber(profile, read);
  if (own.length > 1) sortPath(profile);
  return profile;
}

const POSITIONS = [
  'parent', 'submitter', 'waitWaiter', 'waitUntil', 'waitUser', 'waitCoveredBy', 'pathInstruction',
];

// Gives instructions and operands their positions among those that are read.
function renumber(profile, read) {
  const { numbering, parts } = profile;
  for (const name of POSITIONS) profile[name] = profile[name].map((k) => numbering.local(k));
  for (const name of ['storageAllocated', 'storageReleased', 'storageLastUse']) {
    profile[name] = Float64Array.from(profile[name], (k) => numbering.position(k));
  }
  let operands = 0;
  for (const part of read) {
    const first = numbering.first[part];
    const shift = profile.operandsFrom[first] - operands;
    for (let k = first; k < first + parts[part].instructions; k++) {
      profile.operandsFrom[k] -= shift;
      profile.operandsTo[k] -= shift;
    }
    operands += parts[part].operands;
  }
}

// Puts the critical path, which comes in parts, in the order of time.
function sortPath(profile) {
  const { pathStart, pathEnd, from, to } = profile;
  const order = [...pathStart.keys()].filter((k) => pathEnd[k] >= from && pathStart[k] <= to);
  order.sort((a, b) => pathStart[a] - pathStart[b] || pathEnd[a] - pathEnd[b]);
  for (const name of ['pathKind', 'pathInstruction', 'pathStart', 'pathEnd']) {
    const column = profile[name];
    profile[name] = column.constructor.from(order, (k) => column[k]);
  }
}

// The positions of the elements with each value, as one array and the begin of each part.
function grouped(values, groups) {
  const first = new Uint32Array(groups + 1);
  for (const value of values) if (value < groups) first[value + 1]++;
  for (let k = 0; k < groups; k++) first[k + 1] += first[k];
  const next = first.slice(0, groups);
  const all = new Uint32Array(first[groups]);
  for (let k = 0; k < values.length; k++) {
    if (values[k] < groups) all[next[values[k]]++] = k;
  }
  return { of: (group) => all.subarray(first[group], first[group + 1]) };
}

// The first position in a sorted array whose value is not below `value`.
function lowerBound(sorted, value) {
  let [from, to] = [0, sorted.length];
  while (from < to) {
    const middle = (from + to) >> 1;
    if (sorted[middle] < value) from = middle + 1; else to = middle;
  }
  return from;
}

// The instructions of each stream in program order, and the waits of each instruction.
function link(profile) {
  profile.byStream = grouped(profile.stream, profile.streams.length);
  profile.waitsOf = grouped(profile.waitWaiter, profile.count);
  profile.waitsOfUser = grouped(profile.waitUser, profile.count);
  profile.waitsUntil = grouped(profile.waitUntil, profile.count);
  profile.submittedBy = grouped(profile.submitter, profile.count);
  profile.stepsOf = grouped(profile.parent, profile.count);
  const first = new Uint32Array(profile.waitTensorCount.length + 1);
  profile.waitTensorCount.forEach((count, k) => { first[k + 1] = first[k] + count; });
  profile.tensorsOfWait = (wait) => profile.waitTensors.subarray(first[wait], first[wait + 1]);
  profile.isElided = (wait) => profile.waitResolution[wait] >= 2;
  profile.nameOf = (k) => profile.names[profile.name[k]] ?? '?';
  profile.placeOf = (k) => profile.places[profile.place[k]] ?? '';
  profile.streamOf = (k) => profile.streams[profile.stream[k]]?.name ?? 'the program';
  profile.isWait = (k) => profile.role[k] === ROLE.wait || profile.role[k] === ROLE.fence;
  profile.isTimed = (k) => profile.start[k] >= 0 && profile.stream[k] !== NONE
    && profile.start[k] <= profile.to && profile.end[k] >= profile.from;
  profile.isHere = (k) => k < profile.count && Number.isInteger(k);
  profile.byBegin = (a, b) => profile.start[a] - profile.start[b] || a - b;
  const timed = [];
  // The instructions of a stream that the timeline shows, by their begin.
  profile.timedOf = (stream) => {
    timed[stream] ??= [...profile.byStream.of(stream)].filter(profile.isTimed)
      .sort(profile.byBegin);
    return timed[stream];
  };
  // A record stands for the work before it on its stream.
  profile.workBefore = (k) => {
    if (profile.role[k] !== ROLE.record) return k;
    const own = profile.byStream.of(profile.stream[k]);
    for (let at = lowerBound(own, k) - 1; at >= 0; at--) {
      if (profile.role[own[at]] !== ROLE.record) return own[at];
    }
    return k;
  };
  return profile;
}

function formatTime(ns) {
  const size = Math.abs(ns);
  if (size < 1e3) return `${Math.round(ns)} ns`;
  if (size < 1e6) return `${(ns / 1e3).toPrecision(4)} µs`;
  if (size < 1e9) return `${(ns / 1e6).toPrecision(4)} ms`;
  return `${(ns / 1e9).toPrecision(4)} s`;
}

function formatBytes(bytes) {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  let unit = 0;
  while (bytes >= 1024 && unit + 1 < units.length) { bytes /= 1024; unit++; }
  return unit === 0 ? `${bytes} B` : `${bytes.toFixed(1)} ${units[unit]}`;
}

// A place without its folders.
const shortPlace = (place) => place.replace(/\S*\//g, '');
const formatCount = (count) => count.toLocaleString('en');
const formatShare = (part, whole) => `${(100 * part / (whole || 1)).toFixed(1)} %`;
const counted = (count, noun) => `${formatCount(count)} ${noun}${count === 1 ? '' : 's'}`;
