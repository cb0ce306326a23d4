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
  const click = (x, y) => {
    for (const type of ['pointerdown', 'pointerup']) {
      const box = by('canvas').getBoundingClientRect();
      const at = { clientX: box.left + x, clientY: box.top + y, bubbles: true, pointerId: 1 };
      by('canvas').dispatchEvent(new PointerEvent(type, at));
    }
  };
  by('canvas').setPointerCapture = () => {};
  const center = (k) => [
    timeline.x((profile.start[k] + profile.end[k]) / 2),
    timeline.rowTop(timeline.rowIndex(k)) + timeline.high / 2,
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
  check('the canvas is painted', painted() > 8);
  check('nothing is wider than the window',
    document.documentElement.scrollWidth <= document.documentElement.clientWidth);

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
  by('search').blur();
  press('n');
  check('N goes to the first hit', profile.nameOf(view.selected) === 'matmul');
  check('the hit is counted', by('hits').textContent === `1 of ${count}`);

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
  check('a click on the curve shows the holders', /Holders/.test(by('details').textContent));

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
