// Memory over time: the holders at a moment, and their names.

// The levels of each arena, from columns of all arenas.
function splitLevels(profile) {
  let from = 0;
  profile.levels = profile.arenas.map((_, arena) => {
    const to = from + profile.levelCount[arena];
    const part = (column) => column.subarray(from, to);
    const level = {
      at: part(profile.levelAt), bytes: part(profile.levelBytes), extent: part(profile.levelExtent),
    };
    from = to;
    const most = (values) => values.reduce((best, value) => Math.max(best, value), 0);
    level.peak = most(level.bytes);
    level.top = Math.max(level.peak, most(level.extent));
    return level;
  });
}

// The position of the level at a moment; -1 before the first.
function levelAt(at, time) {
  const k = lowerBound(at, time);
  return k < at.length && at[k] === time ? k : k - 1;
}

// For each column of the screen, the position of the highest value that holds in it: no peak is
// lost between two columns. `scale` is the time of a column.
function columnPeaks(at, values, from, scale, count) {
  const peaks = new Int32Array(count);
  let k = levelAt(at, from);
  for (let column = 0; column < count; column++) {
    const end = from + (column + 1) * scale;
    let best = k;
    while (k + 1 < at.length && at[k + 1] < end) {
      k++;
      if (best < 0 || values[k] > values[best]) best = k;
    }
    peaks[column] = best;
  }
  return peaks;
}

// The storages of an arena by their begin, and by their end.
function heldOf(profile, arena) {
  const { storageArena, heldBegin, heldEnd } = profile;
  profile.heldBy ??= profile.arenas.map((_, own) => {
    const isHeld = (k) => storageArena[k] === own && heldBegin[k] >= 0;
    const all = [...storageArena.keys()].filter(isHeld);
    return {
      begins: all.toSorted((a, b) => heldBegin[a] - heldBegin[b] || a - b),
      ends: all.toSorted((a, b) => heldEnd[a] - heldEnd[b] || a - b),
    };
  });
  return profile.heldBy[arena];
}

// The storages of an arena that are taken at some moment of a range, by their begin.
function heldWithin(profile, arena, [from, to]) {
  const { heldBegin, heldEnd } = profile;
  return heldOf(profile, arena).begins.filter((k) => heldBegin[k] <= to && from < heldEnd[k]);
}

// The storages that are taken at a moment, the largest first.
function holdersAt(profile, arena, time) {
  const size = profile.storageSize;
  return heldWithin(profile, arena, [time, time]).sort((a, b) => size[b] - size[a] || a - b);
}

// A tensor's name. One that only has a number is called by the op that wrote its storage first.
function tensorName(profile, tensor) {
  const { name, storage } = profile.tensors[tensor];
  if (!/^(%\d+|n\d+\.\d+)( in |$)/.test(name)) return name;
  const maker = profile.names[profile.storageMaker[storage]];
  if (maker) return `${maker} (${name})`;
  return profile.storageAllocated[storage] === NONE ? `given (${name})` : name;
}

function storageName(profile, storage) {
  const tensor = profile.storageTensor[storage];
  if (tensor !== NONE) return tensorName(profile, tensor);
  const maker = profile.names[profile.storageMaker[storage]];
  return maker ? `workspace of ${maker}` : 'workspace';
}

// Dtype and shape of the tensor that a storage was made for.
function storageSpec(profile, storage) {
  return profile.tensors[profile.storageTensor[storage]]?.spec ?? '';
}

// The storage whose bytes a storage takes over.
function reusedBy(profile, storage) {
  const { storageArena: arena, storageOffset: offset, storageSize: size } = profile;
  if (offset[storage] < 0) return -1;
  const end = offset[storage] + size[storage];
  for (let k = storage - 1; k >= 0; k--) {
    const overlaps = offset[k] >= 0 && offset[k] < end && offset[storage] < offset[k] + size[k];
    if (arena[k] === arena[storage] && overlaps) return k;
  }
  return -1;
}
