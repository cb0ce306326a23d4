// Memory over time: who holds what at a moment.

// The level of an arena's memory at a moment.
function levelAt(profile, arena, time) {
  const { at, bytes, extent } = profile.levels[arena];
  let k = lowerBound(at, time);
  if (k === at.length || at[k] > time) k--;
  return k < 0 ? { bytes: 0, extent: 0 } : { bytes: bytes[k], extent: extent[k] };
}

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
    level.peak = level.bytes.reduce((most, bytes) => Math.max(most, bytes), 0);
    return level;
  });
}

// The storages that are taken at a moment, the largest first.
function holdersAt(profile, arena, time) {
  const taken = [];
  for (let k = 0; k < profile.storageArena.length; k++) {
    const [begin, end] = [profile.heldBegin[k], profile.heldEnd[k]];
    if (profile.storageArena[k] === arena && begin >= 0 && begin <= time && time < end) {
      taken.push(k);
    }
  }
  const size = profile.storageSize;
  return taken.sort((a, b) => size[b] - size[a] || a - b);
}

function storageName(profile, storage) {
  const tensor = profile.tensors[profile.storageTensor[storage]];
  return tensor ? `${tensor.name} ${tensor.spec}` : 'workspace';
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
