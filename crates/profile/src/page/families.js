// The kinds of work: which one an instruction does, its colour, and the legend.

// The colour of each family of `Family::ALL`, and of the program's threads, is `--family-N` of the
// style sheet.
class Families {
  constructor(profile) {
    this.profile = profile;
    this.titles = [...profile.families, "the program's threads"];
    this.program = profile.families.length;
    // Where devices work, threads only submit.
    const hasDevices = profile.streams.some(({ thread }) => !thread);
    this.isProgram = profile.streams.map(({ thread }) => thread && hasDevices);
    // The one that the legend has chosen: all others are painted faintly.
    this.chosen = -1;
  }

  of(k) {
    const { profile } = this;
    if (this.isProgram[profile.stream[k]]) return this.program;
    return profile.nameFamily[profile.name[k]];
  }

  isFaint(k) { return this.chosen >= 0 && this.of(k) !== this.chosen; }

  swatch(family) {
    const style = `background: var(--family-${family})`;
    return element('span', [], { class: 'swatch', style });
  }

  // Shows the families that occur, with their shares of all work. A click chooses one.
  legend(panel, sums, changed) {
    const times = this.titles.map(() => -1);
    for (const { family, time } of sums.ops()) times[family] = Math.max(times[family], 0) + time;
    const items = this.titles.flatMap((title, family) => {
      if (times[family] < 0) return [];
      const share = family === this.program ? '' : ` ${formatShare(times[family], sums.work())}`;
      const button = element('button', [this.swatch(family), title, element('b', share)], {
        type: 'button', 'aria-pressed': 'false', title: 'Show these alone',
      });
      button.addEventListener('click', () => {
        this.chosen = this.chosen === family ? -1 : family;
        for (const other of panel.querySelectorAll('button')) {
          other.setAttribute('aria-pressed', String(other === button && this.chosen === family));
        }
        changed();
      });
      return [button];
    });
    const mark = (className, text) => element('span', [
      element('span', [], { class: className }), text,
    ]);
    items.push(mark('wait mark', 'waits'));
    const hasFailed = this.profile.outcome.some((outcome) => outcome !== 0);
    if (hasFailed) items.push(mark('failure mark', 'failed or skipped'));
    panel.replaceChildren(...items);
  }
}
