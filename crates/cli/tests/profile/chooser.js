// Chooses a range of a long run as somebody would, and posts which checks failed.

(async () => {
  const PART = 65536;
  const failed = [];
  let checks = 0;
  const check = (what, holds) => { checks++; if (!holds) failed.push(what); };
  const by = (id) => document.getElementById(id);
  const state = () => document.documentElement.dataset.ready;
  const until = async (wanted) => {
    while (state() !== wanted) {
      if (state() === 'failed') throw new Error(by('facts').textContent);
      await new Promise((resolve) => { setTimeout(resolve, 5); });
    }
  };
  await until('choosing');
  check('nothing is decoded', window.millstream === undefined);
  check('the chooser is shown', !by('chooser').hidden && by('main').hidden);
  check('it counts all', by('chooser').textContent.includes('327,690 instructions'));
  const canvas = by('chooser').querySelector('canvas');
  const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
  const colors = new Set();
  for (let k = 0; k < data.length; k += 4) colors.add(data.slice(k, k + 4).join());
  check('the overview is painted', colors.size > 4);
  check('the overview names its colours', by('chooser').querySelector('.legend').textContent
    === 'other');

  // A drag chooses, and so do the fields.
  canvas.setPointerCapture = () => {};
  const box = canvas.getBoundingClientRect();
  const point = (type, share) => canvas.dispatchEvent(new PointerEvent(type, {
    clientX: box.left + 170 + share * (box.width - 170), clientY: box.top + 30, bubbles: true,
  }));
  const [from, to] = by('chooser').querySelectorAll('input');
  point('pointerdown', 0.5);
  point('pointermove', 0.75);
  point('pointerup', 0.75);
  check('the drag chooses', Math.abs(from.valueAsNumber - 0.164) < 0.003
    && Math.abs(to.valueAsNumber - 0.246) < 0.003);
  const fill = (field, value) => {
    field.value = value;
    field.dispatchEvent(new Event('input', { bubbles: true }));
  };
  fill(from, String((2 * PART + 1000) / 1e6));
  fill(to, String((3 * PART + 1000) / 1e6));
  check('it counts what is read', by('chooser').textContent.includes('reads 131,072 instr'));
  by('chooser').querySelector('button[type=submit]').click();
  await until('');

  const { profile, view } = window.millstream;
  check('two parts are decoded', profile.count === 2 * PART && profile.name.length === 2 * PART);
  check('the page is shown', by('chooser').hidden && !by('main').hidden);
  check('the facts name the range', /here 132.1 µs to 197.6 µs/.test(by('facts').textContent));
  check('the address keeps the range', window.location.hash === `#range=132072,197608`);
  check('the range can be changed', !by('range').hidden);
  check('all of the range is seen', view.timeline.from <= profile.from
    && view.timeline.to >= profile.to);
  check('the numbers are those of the run', profile.numbering.global(0) === 2 * PART
    && profile.numbering.local(3 * PART + 5) === PART + 5
    && profile.numbering.local(PART) === 0xffffffff);

  check('the panel says that it is a part', /chosen part/.test(by('details').textContent));

  // A wait within the range, and one for what lies before it.
  const waiter = (number) => profile.numbering.local(number);
  view.select(waiter(3 * PART + 93));
  check('a wait in the range has an arrow', view.arrows.length === 1
    && view.arrows[0][0] === waiter(3 * PART + 93 - 1001));
  check('the panel has the number', by('details').textContent.includes('196,701'));
  view.select(waiter(2 * PART + 929));
  check('a wait for what is not read says so',
    by('details').textContent.includes('something out of range') && view.arrows.length === 0);

  view.tables.open('Streams');
  const busy = by('table').querySelector('tbody tr').textContent;
  check('the tables are of the range', /99.0 %/.test(busy) && /64,8/.test(busy));
  view.tables.open('Critical path');
  check('the path is of the range', profile.pathStart.every((start, k) => {
    return start <= profile.to && profile.pathEnd[k] >= profile.from
      && (k === 0 || profile.pathStart[k - 1] <= start);
  }) && profile.pathKind.length > 1000);
  view.tables.open('Repeats');
  check('what repeats is that of the run', by('table').textContent.includes('324,413'));
  view.step(5);
  check('steps have the numbers of the run', by('table').textContent.includes('131077'));
  return { checks, failed };
})().catch((error) => ({ error: `${error.message} ${error.stack}` })).then((answer) => {
  fetch('/result', { method: 'POST', body: JSON.stringify(answer) });
});
