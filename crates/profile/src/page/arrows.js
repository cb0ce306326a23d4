// Arrows from an instruction to its waiter.

// So many arrows are painted at once, the longest waits first.
const MOST_ARROWS = 3000;

// The waits for records right behind an instruction.
function waitsOfRecord(profile, k) {
  if (profile.stream[k] === NONE) return [];
  const own = profile.byStream.of(profile.stream[k]);
  const waits = [];
  for (let at = lowerBound(own, k) + 1; at < own.length; at++) {
    if (profile.role[own[at]] !== ROLE.record) break;
    waits.push(...profile.waitsUntil.of(own[at]));
  }
  return waits;
}

// The arrow of a wait, if both of its ends are on the timeline.
function arrowOf(profile, wait) {
  const [until, waiter] = [profile.waitUntil[wait], profile.waitWaiter[wait]];
  if (until === NONE || waiter === NONE) return null;
  const from = profile.workBefore(until);
  if (!profile.isTimed(from) || !profile.isTimed(waiter)) return null;
  return [from, waiter, profile.isElided(wait) ? 'elided' : 'wait'];
}

// The arrows of an instruction: its waits, and the waits for it.
function arrowsOf(profile, k) {
  const own = new Set([...profile.waitsOf.of(k), ...profile.waitsOfUser.of(k)]);
  const later = [...profile.waitsUntil.of(k), ...waitsOfRecord(profile, k)];
  const shown = [...own, ...later.filter((wait) => own.has(wait) || !profile.isElided(wait))];
  return shown.map((wait) => arrowOf(profile, wait)).filter(Boolean).slice(0, 200);
}

// The arrows of all waits that were made, those that blocked longest first.
function allArrows(profile) {
  const arrows = [];
  for (let wait = 0; wait < profile.waitWaiter.length; wait++) {
    const arrow = profile.isElided(wait) ? null : arrowOf(profile, wait);
    if (arrow) arrows.push(arrow);
  }
  const blocked = ([, k]) => profile.end[k] - profile.start[k];
  return arrows.sort((a, b) => blocked(b) - blocked(a));
}

// Paints arrows on a timeline, and returns how many of those in view there was no room for. Arrows
// with the same ends on the screen are painted once.
function paintArrows(timeline, arrows, faint = false) {
  const { profile } = timeline;
  const painted = new Set();
  let left = 0;
  for (const [from, to, kind] of arrows) {
    const rows = [timeline.rowOf[from], timeline.rowOf[to]];
    // A wait ends when what it is for has ended.
    const end = profile.isWait(to) ? profile.end[to] : profile.start[to];
    const [begin, upto] = [profile.end[from], end];
    if (rows.includes(-1) || Math.max(begin, upto) < timeline.from) continue;
    if (Math.min(begin, upto) > timeline.to) continue;
    const [x, right] = [timeline.x(begin), timeline.x(upto)];
    const key = `${rows} ${Math.round(x / 3)} ${Math.round(right / 3)} ${kind}`;
    if (painted.has(key)) continue;
    if (painted.size >= MOST_ARROWS) { left++; continue; }
    painted.add(key);
    const middle = (row) => timeline.rowTop(row) + timeline.high / 2;
    paintArrow(timeline, [x, middle(rows[0])], [right, middle(rows[1])], kind, faint);
  }
  return left;
}

function paintArrow({ context, color }, [x, y], [right, down], kind, faint) {
  const bend = Math.max(18, Math.abs(right - x) / 3);
  context.globalAlpha = faint ? 0.6 : 1;
  context.strokeStyle = color(kind === 'elided' ? '--elided' : '--arrow');
  context.fillStyle = context.strokeStyle;
  context.lineWidth = faint ? 0.8 : 1.6;
  context.setLineDash(kind === 'elided' ? [4, 3] : []);
  context.beginPath();
  context.moveTo(x, y);
  context.bezierCurveTo(x + bend, y, right - bend, down, right, down);
  context.stroke();
  context.setLineDash([]);
  const size = faint ? 3 : 4;
  context.beginPath();
  context.moveTo(right, down);
  context.lineTo(right - 1.7 * size, down - size);
  context.lineTo(right - 1.7 * size, down + size);
  context.fill();
  context.globalAlpha = 1;
}
