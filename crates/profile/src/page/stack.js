// How the holders of memory are stacked over time.

// So many holders are layers of their own.
const MOST_HOLDERS = 150;

// The storages that are layers of their own: those of some height that hold the most for the
// longest.
function tallHolders(profile, arena, [from, to], pixel) {
  const { heldBegin: begin, heldEnd: end, storageSize: size } = profile;
  const high = heldWithin(profile, arena, [from, to]).filter((k) => size[k] >= pixel);
  const weights = Float64Array.from(high, (k) => {
    return size[k] * (Math.min(end[k], to) - Math.max(begin[k], from));
  });
  const least = weights.toSorted().at(-MOST_HOLDERS) ?? 0;
  return high.filter((_, k) => weights[k] >= least).slice(0, 2 * MOST_HOLDERS);
}

// Stacks the holders of each column of the screen, at the moment of the column at which most is
// taken: below, the sum of the smaller ones of each op; above, the others by their begin.
// Neighbouring columns with the same stack are one layer. `pixel` is the bytes of a pixel. A holder
// is a storage, or by a negative number the smaller ones of a maker.
function stackedLayers(profile, arena, { from, to, scale }, columns, pixel) {
  const { heldBegin: begin, heldEnd: end, storageSize: size } = profile;
  const { at, bytes } = profile.levels[arena];
  const own = tallHolders(profile, arena, [from, to], pixel);
  const isOwn = new Set(own);
  const smaller = new Smaller(profile, arena, (k) => !isOwn.has(k));
  const open = new Map();
  const layers = [];
  columnPeaks(at, bytes, from, scale, columns).forEach((k, column) => {
    const moment = k < 0 ? -1 : Math.max(at[k], from + column * scale);
    if (moment < 0 || moment > profile.total) return;
    let height = 0;
    const stack = (holder, high) => {
      const before = open.get(holder);
      const isSame = before && before.last === column && before.from === height
        && before.to === height + high;
      if (isSame) before.last = column + 1;
      else {
        const [first, last] = [column, column + 1];
        const layer = { holder, first, last, from: height, to: height + high };
        open.set(holder, layer);
        layers.push(layer);
      }
      height += high;
    };
    for (const [maker, sum] of smaller.at(moment)) stack(-1 - maker, sum);
    for (const storage of own) {
      if (begin[storage] <= moment && moment < end[storage]) stack(storage, size[storage]);
    }
  });
  return layers;
}

// The storages that are no layers of their own: their bytes by maker, at one moment after another.
// The number of a maker is that of its name and 1; 0 has no maker.
class Smaller {
  constructor(profile, arena, isSmaller) {
    Object.assign(this, { profile, isSmaller, ...heldOf(profile, arena), begun: 0, ended: 0 });
    this.sums = new Map();
  }

  at(moment) {
    const { profile: { heldBegin, heldEnd }, begins, ends } = this;
    while (this.begun < begins.length && heldBegin[begins[this.begun]] <= moment) {
      this.add(begins[this.begun++], 1);
    }
    while (this.ended < ends.length && heldEnd[ends[this.ended]] <= moment) {
      this.add(ends[this.ended++], -1);
    }
    return [...this.sums].filter(([, sum]) => sum > 0).sort(([a], [b]) => a - b);
  }

  add(storage, sign) {
    if (!this.isSmaller(storage)) return;
    const { storageMaker, storageSize } = this.profile;
    const maker = storageMaker[storage] === NONE ? 0 : storageMaker[storage] + 1;
    this.sums.set(maker, (this.sums.get(maker) ?? 0) + sign * storageSize[storage]);
  }
}
