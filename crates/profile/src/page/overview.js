// The panel of a range, or of the whole run if nothing is selected: its time by op, by stream and
// by cause.

// So many rows of each are shown.
const TOP = 10;

class Overview {
  constructor(profile, view) {
    Object.assign(this, { profile, view });
  }

  parts() {
    const { profile, view } = this;
    const sums = view.sums();
    const isRange = view.range !== null;
    const whole = profile.isWhole ? 'The whole run' : 'The chosen part of the run';
    const title = isRange ? `${formatTime(sums.from)} to ${formatTime(sums.to)}` : whole;
    const count = sums.streams().reduce((all, stream) => all + stream.count, 0);
    const { program, reading } = profile.program;
    const times = isRange || !profile.isWhole || !reading ? [['takes', formatTime(sums.span)]]
      : [['program', formatTime(program)], ['reading the outputs', formatTime(reading)]];
    const pairs = [...times, ['on streams', counted(count, 'instruction')]];
    const hint = isRange ? 'Enter zooms to the range, Esc leaves it. The tables below are of it.'
      : 'Click an instruction to see what it waited for; drag along the times, or with Shift, to '
        + 'select a range; click a memory curve to see who holds it.';
    return [
      element('h2', title), facts(pairs), element('p', hint, { class: 'why' }),
      ...this.ops(sums), ...this.streams(sums), ...this.causes(sums), ...this.pauses(sums),
      ...(isRange ? [] : this.remarks()),
    ];
  }

  // A list of rows, each with a share as a bar behind it.
  list(title, rows, tab = '') {
    if (!rows.length) return [];
    const shown = rows.slice(0, TOP).map(({ mark = '', text, time, share, bar, go }) => {
      const label = [mark, element('span', text)];
      const cells = [
        element('span', label, { class: 'label', title: text }), element('span', formatTime(time)),
        element('span', `${(100 * share).toFixed(1)} %`), bar ?? '',
      ];
      if (!go) return element('li', element('span', cells, { class: 'sum' }));
      const button = element('button', cells, { class: 'sum', type: 'button', onclick: go });
      return element('li', button);
    });
    const more = rows.length - shown.length;
    if (more > 0) {
      const text = `and ${formatCount(more)} more`;
      const onclick = () => this.view.tables.open(tab);
      const link = element('button', text, { class: 'link', type: 'button', onclick });
      shown.push(element('li', tab ? link : text));
    }
    return [element('h3', title), element('ul', shown, { class: 'sums' })];
  }

  ops(sums) {
    const { view } = this;
    const { program } = view.families;
    const row = (all) => ({ name, family, time, which }) => ({
      mark: view.families.swatch(family), text: name, time, share: time / (all || 1),
      go: () => view.select(which, true),
    });
    const work = sums.ops().filter(({ family }) => family !== program);
    const calls = sums.ops().filter(({ family }) => family === program);
    return [
      ...this.list('Work, by op', work.map(row(sums.work())), 'Ops'),
      ...this.list("The program's threads", calls.map(row(sums.span)), 'Ops'),
    ];
  }

  streams(sums) {
    const { profile, view } = this;
    const own = sums.streams().filter(({ works, blocked }) => works + blocked > 0);
    return this.list('Work, by stream', own.map((sum) => {
      const part = (name, time) => element('i', [], {
        class: name, style: `width: ${Math.min(100, 100 * time / sums.span)}%`,
      });
      const bar = element('span', [part('works', sum.running), part('blocked', sum.blocked)], {
        class: 'shares', title: 'works, waits',
      });
      return {
        text: profile.streams[sum.stream].name, time: sum.works, share: sum.works / sums.span, bar,
        go: () => view.select(sum.longest, true),
      };
    }), 'Streams');
  }

  causes(sums) {
    const { view } = this;
    const own = sums.causes();
    const all = own.reduce((sum, { time }) => sum + time, 0) || 1;
    return this.list('Time of the streams, by cause', own.map(({ text, time, which }) => ({
      text, time, share: time / all, go: which < 0 ? null : () => view.select(which, true),
    })), 'Waits');
  }

  pauses(sums) {
    return this.list('The program', sums.pauses().map(({ key, time }) => ({
      text: key, time, share: time / sums.span,
    })));
  }

  remarks() {
    const { remarks } = this.profile;
    if (!remarks.length) return [];
    return [element('h3', 'Remarks'), element('ul', remarks.map((text) => element('li', text)))];
  }
}
