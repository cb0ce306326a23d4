// Uses a page as somebody would, and posts how many checks there were and how many passed.

(async () => {
  const failed = [];
  let checks = 0;
  const check = (what, holds) => { checks++; if (!holds) failed.push(what); };
  const by = (id) => document.getElementById(id);
  const frame = () => new Promise((resolve) => {
    requestAnimationFrame(() => requestAnimationFrame(resolve));
  });
  while (document.documentElement.dataset.ready === undefined) await frame();
  if (document.documentElement.dataset.ready === 'failed') throw new Error(by('facts').textContent);
  const { profile, view } = window.millstream;
  const { timeline } = view;
  await frame();
  const press = (key) => document.body.dispatchEvent(new KeyboardEvent('keydown', {
    key, bubbles: true, cancelable: true,
  }));
  const point = (type, x, y) => {
    const box = by('canvas').getBoundingClientRect();
    const at = { clientX: box.left + x, clientY: box.top + y, bubbles: true, pointerId: 1 };
    by('canvas').dispatchEvent(new PointerEvent(type, at));
  };
  const click = (x, y) => {
    for (const type of ['pointerdown', 'pointerup']) point(type, x, y);
  };
  by('canvas').setPointerCapture = () => {};
  const center = (k) => [
    timeline.x((profile.start[k] + profile.end[k]) / 2),
    timeline.rowTop(timeline.rowOf[k]) + timeline.high / 2,
  ];
  const longest = (keep) => {
    let best = -1;
    for (let k = 0; k < profile.count; k++) {
      if (!profile.isTimed(k) || !keep(k)) continue;
      const takes = profile.end[k] - profile.start[k];
      if (best < 0 || takes > profile.end[best] - profile.start[best]) best = k;
    }
    return best;
  };
  const painted = () => {
    const { width, height } = by('canvas');
    const { data } = by('canvas').getContext('2d').getImageData(0, 0, width, height);
    const colors = new Set();
    for (let k = 0; k < data.length; k += 4 * 7) {
      colors.add((data[k] << 16) | (data[k + 1] << 8) | data[k + 2]);
    }
    return colors.size;
  };

  check('the title is the program', by('title').textContent.includes('transformer'));
  check('the facts count instructions', /instructions/.test(by('facts').textContent));
  check('the facts have the spread of the repeats',
    /one in the middle of 4 runs: median [\d.]+ .?s, half /.test(by('facts').textContent));
  check('the canvas is painted', painted() > 8);
  check('nothing is wider than the window',
    document.documentElement.scrollWidth <= document.documentElement.clientWidth);

  // The colours: families of work, each with its share.
  const legend = by('legend').textContent;
  check('the legend names families', /matrix products \d/.test(legend) && /waits$/.test(legend));
  const shares = [...by('legend').querySelectorAll('b')].map((b) => parseFloat(b.textContent));
  check('the shares are all work', Math.abs(shares.reduce((a, b) => a + b, 0) - 100) < 1);
  const family = (name) => view.families.of(profile.name.indexOf(profile.names.indexOf(name)));
  check('products and functions differ', family('addmm') === family('matmul')
    && family('addmm') !== family('relu'));
  by('legend').querySelector('button').click();
  check('a family can be chosen', view.families.chosen >= 0 && view.families.isFaint(longest(
    (k) => !profile.isWait(k) && view.families.of(k) !== view.families.chosen)));
  by('legend').querySelector('button').click();
  check('and left again', view.families.chosen === -1);
  check('the panel has the sums of the run', /whole run/.test(by('details').textContent)
    && /by op/.test(by('details').textContent) && /by cause/.test(by('details').textContent));

  // A range, by a drag along the times: its sums are those that a plain loop finds. It holds the
  // longest call, as a busy machine may leave any fixed part of a run without one, and no edge,
  // where a zoom ends.
  const isInside = (k) => profile.start[k] > profile.total * 0.1
    && profile.end[k] < profile.total * 0.9;
  const long = longest((k) => profile.role[k] === 0 && isInside(k));
  const middle = (profile.start[long] + profile.end[long]) / 2;
  const leftmost = Math.min(Math.max(middle - profile.total * 0.2, profile.total * 0.1),
    profile.total * 0.5);
  const rightmost = leftmost + profile.total * 0.4;
  const [left, right] = [timeline.x(leftmost), timeline.x(rightmost)];
  point('pointerdown', left, 6);
  point('pointermove', right, 6);
  point('pointerup', right, 6);
  const [begin, end] = view.range;
  check('the drag selects a range', Math.abs(begin - leftmost) < 2 * timeline.scale
    && Math.abs(end - rightmost) < 2 * timeline.scale);
  check('the panel is of the range', /by stream/.test(by('details').textContent)
    && by('details').textContent.includes(formatTime(begin)));
  let work = 0;
  for (let k = 0; k < profile.count; k++) {
    if (!profile.isTimed(k) || profile.role[k] !== 0) continue;
    work += Math.max(0, Math.min(profile.end[k], end) - Math.max(profile.start[k], begin));
  }
  check('the ops add up to the work', Math.abs(view.sums().work() - work) < 1);
  const shown = profile.streams.filter((_, k) => profile.timedOf(k).length).length;
  const causes = view.sums().causes().reduce((sum, { time }) => sum + time, 0);
  check('the causes add up to the time of the streams',
    Math.abs(causes - shown * (end - begin)) < shown);
  check('what is no gap is work or a wait', view.sums().streams().every(({ running, works }) => {
    return Math.abs(running - works) < 1;
  }));
  check('the tables are of the range', /^From /.test(by('table').textContent));
  press('Enter');
  check('Enter zooms to the range', Math.abs(timeline.from - begin) < timeline.scale
    && Math.abs(timeline.to - end) < timeline.scale);
  view.select(longest((k) => profile.start[k] < end && profile.end[k] > begin));
  press('Escape');
  check('Escape leads back to the range', view.range !== null && view.selected === -1);
  press('Escape');
  check('Escape leaves the range', view.range === null
    && /whole run/.test(by('details').textContent));
  press('f');

  // Every wait as an arrow, and rows of workers.
  const made = [...profile.waitWaiter.keys()].filter((wait) => !profile.isElided(wait));
  press('e');
  await frame();
  check('E shows the arrows of all waits', timeline.showsArrows && timeline.arrowsLeft === 0
    && view.allArrows().length > 0 && view.allArrows().length <= made.length);
  press('e');
  const streams = timeline.rows.length;
  press('l');
  await frame();
  const workers = new Set(profile.streams.flatMap(({ worker }, k) => {
    return worker !== null && profile.timedOf(k).length ? [worker] : [];
  }));
  check('L shows a row for each worker', timeline.rows.length === workers.size
    && timeline.rows.every(({ label }) => /^worker \d+$/.test(label)));
  check('each instruction has a row', timeline.rowOf.every((row, k) => {
    return row >= 0 || !profile.isTimed(k);
  }));
  check('what a worker runs does not overlap', timeline.rows.every(({ work: { members } }) => {
    return members.every((k, at) => at === 0 || profile.start[k] >= profile.end[members[at - 1]]);
  }));
  press('l');
  check('and for each stream again', timeline.rows.length === streams);
  const [first, second] = timeline.rows[0].work.members;
  const ends = profile.end[first];
  profile.end[first] = profile.end[second];
  check('what overlaps has a lane of its own', makeRows(profile, false).rows.length
    === streams + 1);
  profile.end[first] = ends;

  // The tip stays within what is seen of the timeline.
  await frame();
  const area = by('timeline').getBoundingClientRect();
  const low = Math.min(area.height, by('canvas').clientHeight) - 4;
  const last = timeline.rows.map(({ work: { members } }) => center(members.at(-1)));
  const tips = [[timeline.left + 2, low], ...last.filter(([, y]) => y < low),
    [timeline.x(profile.total * 0.99), low]];
  check('tips stay inside', tips.every(([x, y]) => {
    point('pointermove', x, y);
    const tip = by('tip').getBoundingClientRect();
    return by('tip').hidden || (tip.left >= area.left && tip.right <= area.right + 0.5
      && tip.top >= area.top && tip.bottom <= area.bottom + 0.5);
  }) && !by('tip').hidden);

  // A click on an instruction that waited.
  const waiting = longest((k) => profile.waitsOfUser.of(k).some((w) => !profile.isElided(w)));
  timeline.show(waiting, true);
  await frame();
  click(...center(waiting));
  await frame();
  check('the click selects', view.selected === waiting);
  check('the panel names it', by('details').textContent.includes(profile.nameOf(waiting)));
  check('the panel says what it waited for', by('details').textContent.includes('Waited for'));
  check('there are arrows', view.arrows.length > 0);
  // A link in the panel leads to what was waited for.
  const before = view.selected;
  [...by('details').querySelectorAll('.link')].at(-1).click();
  check('a link selects another one', view.selected !== before);

  const elided = profile.waitUser.find((k, w) => profile.isElided(w) && k !== 0xffffffff);
  view.select(elided);
  check('the panel says which waits were not needed',
    /not needed/.test(by('details').textContent) && /already|barrier|implies/.test(
      by('details').textContent));

  // Keys.
  press('f');
  await frame();
  const whole = timeline.to - timeline.from;
  check('F shows the whole run', timeline.from <= 0 && timeline.to >= profile.total);
  press('+');
  check('+ zooms in', timeline.to - timeline.from < whole);
  const from = timeline.from;
  press('ArrowRight');
  check('the arrow moves', timeline.from > from);
  view.select(waiting);
  press(']');
  check('] goes to the next one of the stream', view.selected > waiting
    && profile.stream[view.selected] === profile.stream[waiting]);
  press('[');
  check('[ goes back', view.selected === waiting);
  press('Escape');
  check('Escape selects nothing', view.selected === -1);
  press('/');
  check('/ goes to the search', document.activeElement === by('search'));

  // Search.
  by('search').value = 'matmul';
  by('search').dispatchEvent(new Event('input', { bubbles: true }));
  const matmuls = profile.names.indexOf('matmul');
  const count = [...profile.name].filter((name, k) => name === matmuls && profile.isTimed(k)).length;
  check('the search counts its hits', by('hits').textContent === `${count} hits`);
  // A part of a tensor's shape, in the form that the panel shows.
  const [spec] = profile.tensors.map((tensor) => tensor.spec).filter((text) => /,/.test(text));
  by('search').value = spec.slice(1, -1).toUpperCase();
  by('search').dispatchEvent(new Event('input', { bubbles: true }));
  check('a part of a shape finds its users', view.hits.length > 0 && view.hits.every((k) => {
    const [from, to] = [profile.operandsFrom[k], profile.operandsTo[k]];
    return [...profile.operandTensor.subarray(from, to)].some((tensor) => {
      return profile.tensors[tensor].spec.includes(spec.slice(1, -1));
    });
  }));
  by('search').value = 'matmul';
  by('search').dispatchEvent(new Event('input', { bubbles: true }));
  by('search').blur();
  press('n');
  check('N goes to the first hit', profile.nameOf(view.selected) === 'matmul');
  check('the hit is counted', by('hits').textContent === `1 of ${count}`);

  // The run's time is the program's; the reads of its outputs stand beside.
  check('the reads are apart', by('facts').textContent.includes('outputs read in')
    && profile.program.reading > 0
    && profile.program.program + profile.program.reading <= profile.total);

  // Tables sort by their headers.
  const calls = () => [...by('table').querySelectorAll('tbody tr')]
    .map((row) => Number(row.cells[2].textContent.replaceAll(',', '')));
  const sort = () => [...by('table').querySelectorAll('th button')]
    .find((button) => button.textContent === 'calls').click();
  view.tables.open('Ops');
  sort();
  check('numbers begin with the largest', calls().every((n, k, all) => !k || all[k - 1] >= n));
  sort();
  check('and then with the smallest', calls().every((n, k, all) => !k || all[k - 1] <= n));
  check('calls have rates', /GFLOP/.test(by('table').textContent) && profile.peak.gb_s > 0
    && profile.moved.some((bytes) => bytes > 0));

  // Tables.
  for (const tab of by('tabs').children) {
    tab.click();
    await frame();
    // Each node of a trace runs once.
    const least = tab.textContent === 'Repeats' ? 1 : 2;
    const rows = by('table').querySelectorAll('tr').length;
    check(`the table ${tab.textContent} has rows`, rows >= least);
  }
  check('the last table steps through the list', /Streams/.test(by('table').textContent));
  view.step(0);
  press('.');
  press('.');
  check('. steps forward', view.selected === 2);
  press(',');
  check(', steps back', view.selected === 1);

  // Memory.
  press('f');
  await frame();
  const parts = timeline.layout();
  click(timeline.x(profile.total / 2), parts.memory + 20);
  await frame();
  check('a click on the curve shows the holders', view.tables.shown === 'Memory'
    && /holders, the largest first/.test(by('table').textContent));
  const { holders } = view.tables;
  const held = holdersAt(profile, 0, view.cursor);
  check('the table has each holder', by('table').querySelectorAll('tbody tr').length
    === Math.min(held.length, 200));
  const named = held.filter((k) => /^[a-z_]\w* \(%\d+\)$/.test(storageName(profile, k)));
  check('numbers have the name of their op', named.length > 0
    && held.every((k) => !/^%/.test(storageName(profile, k))));
  check('each made one has the place that allocated it', held.every((k) => {
    return profile.storageAllocated[k] === 0xffffffff || /node \d+/.test(holders.place(k));
  }));
  const column = Math.round(timeline.x(view.cursor) - timeline.left);
  const stack = holders.layersOf.filter(({ first, last }) => first <= column && column < last);
  const { at, bytes } = profile.levels[0];
  const most = columnPeaks(at, bytes, timeline.from, timeline.scale, column + 1)[column];
  check('the stack is all that is taken', Math.max(...stack.map(({ to }) => to)) === bytes[most]);
  check('the stack has no gap', stack.every(({ from }) => {
    return from === 0 || stack.some(({ to }) => to === from);
  }));

  // The theme.
  const color = () => getComputedStyle(document.body).backgroundColor;
  const was = color();
  press('t');
  check('T changes the theme', color() !== was);
  press('t');

  return { checks, passed: checks - failed.length, failed };
})().catch((error) => ({ error: `${error.message} ${error.stack}` })).then((answer) => {
  fetch('/result', { method: 'POST', body: JSON.stringify(answer) });
});
