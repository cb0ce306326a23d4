// Looks at a launch and its steps as somebody would, and posts which checks failed.

(async () => {
  const NO = 0xffffffff;
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
  const all = [...profile.name.keys()];
  const panel = () => by('details').textContent;

  const launch = profile.role.indexOf(8);
  const steps = [...profile.stepsOf.of(launch)];
  const works = steps.filter((k) => profile.role[k] === 0 && profile.argument[k] !== NO);
  check('the launch has steps', works.length > 40 && works.every((k) => k < launch));
  check('each has a time within it', works.every((k) => profile.isTimed(k)
    && profile.start[k] >= profile.ready[launch] && profile.end[k] <= profile.end[launch]));
  check('each has a row', works.every((k) => timeline.rowOf[k] >= 0));
  check('each has its place', works.every((k) => /node \d+/.test(profile.placeOf(k))));
  view.select(launch);
  check('the panel counts the steps', /\d+ instructions; the longest:/.test(panel()));

  const waits = steps.filter((k) => profile.role[k] === 1 && profile.end[k] > profile.start[k]);
  const waiting = waits.sort((a, b) => profile.end[b] - profile.start[b]
    - profile.end[a] + profile.start[a])[0];
  check('steps wait', waiting !== undefined);
  const user = profile.waitUser[profile.waitsOf.of(waiting)[0]];
  view.select(user);
  check('the panel says what a step waited for', panel().includes('Waited for'));
  check('and for which tensors', /%\d+/.test(panel()));
  check('and what it is a step of', panel().includes('step of'));
  check('there are arrows', view.arrows.length > 0);
  check('operands are named', panel().includes('Operands') && / in list0/.test(panel()));

  const sums = new Sums(profile, view.families, [0, profile.total]);
  const causes = sums.waits().map(({ key }) => key);
  check('causes name ops', causes.some((key) => /^[a-z_]+ on .*compute \d in list0$/.test(key)));
  check('nothing is unknown', !causes.some((key) => /unknown/.test(key)));
  const onPath = all.filter((k) => works.includes(k)
    && [...profile.pathInstruction].some((of, at) => of === k && profile.pathKind[at] === 0));
  check('the critical path goes through steps', onPath.length > 10);
  check('so does its table', [...by('tabs').children].some((tab) => {
    tab.click();
    return /compute \d in list0/.test(by('table').textContent);
  }));
  const arena = profile.arenas.indexOf('cpu:0 in list0');
  check('its memory is shown', arena > 0 && holdersAt(profile, arena, profile.start[works[20]])
    .length > 0);
  return { checks, failed };
})().catch((error) => ({ error: `${error.message} ${error.stack}` })).then((answer) => {
  fetch('/result', { method: 'POST', body: JSON.stringify(answer) });
});
