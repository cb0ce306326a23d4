// The range of a long run that the page reads: chosen on an overview, before the instructions are
// decoded. The address keeps it, so that a reload or a bookmark shows the same range.

// A run of so many parts is read at once.
const AT_ONCE = 4;

const rangeOfAddress = () => {
  const found = /^#range=([\d.]+),([\d.]+)$/.exec(window.location.hash);
  return found && [Number(found[1]), Number(found[2])];
};

class Chooser {
  constructor({ header, columns }, panel) {
    Object.assign(this, { header, panel });
    const { overview, overviewFamily } = columns;
    const steps = overview.length / header.streams.length;
    this.families = new Families({ ...header, ...columns });
    this.strips = header.streams.map(({ name }, stream) => {
      const own = (column) => column.subarray(stream * steps, (stream + 1) * steps);
      const isProgram = this.families.isProgram[stream];
      return { name, busy: own(overview), families: own(overviewFamily), isProgram };
    }).filter(({ busy }) => busy.some((share) => share > 0));
    const { begin } = header.parts[0];
    this.range = [begin, header.parts[Math.min(1, header.parts.length - 1)].end];
  }

  // Shows the overview, and returns the range once it is chosen.
  choose() {
    const { header } = this;
    this.canvas = element('canvas', [], { tabindex: '0', 'aria-label': 'The run over time' });
    this.count = element('output');
    this.inputs = ['From', 'To'].map((name) => element('input', [], {
      type: 'number', min: '0', step: 'any', 'aria-label': `${name}, in milliseconds`,
    }));
    const all = header.parts.reduce((sum, { instructions }) => sum + instructions, 0);
    const text = `The run has ${formatCount(all)} instructions. Drag over the part to look at.`;
    const form = element('form', [
      'From ', this.inputs[0], ' ms to ', this.inputs[1], ' ms: ', this.count, ' ',
      element('button', 'Show', { type: 'submit', class: 'main' }), ' ',
    ]);
    const whole = element('button', 'Show the whole run', { type: 'button' });
    form.append(whole);
    this.panel.replaceChildren(element('p', text), this.legend(), this.canvas, form);
    this.panel.hidden = false;
    this.inputs.forEach((input, end) => input.addEventListener('input', () => {
      if (Number.isFinite(input.valueAsNumber)) this.range[end] = input.valueAsNumber * 1e6;
      this.paint();
    }));
    this.listen();
    this.show();
    window.addEventListener('resize', this.paint = this.paint.bind(this));
    return new Promise((resolve) => {
      const done = (range) => {
        window.removeEventListener('resize', this.paint);
        this.panel.hidden = true;
        resolve(range);
      };
      form.addEventListener('submit', (event) => {
        event.preventDefault();
        done([Math.min(...this.range), Math.max(...this.range)]);
      });
      whole.addEventListener('click', () => done([0, header.total]));
    });
  }

  // The families that take most of some step.
  legend() {
    const found = new Set();
    for (const { busy, families, isProgram } of this.strips) {
      busy.forEach((share, at) => {
        if (share) found.add(isProgram ? this.families.program : families[at]);
      });
    }
    const items = [...found].sort((a, b) => a - b).map((family) => element('span', [
      this.families.swatch(family), this.families.titles[family],
    ]));
    return element('div', items, { class: 'legend' });
  }

  get left() { return Math.min(170, this.canvas.clientWidth * 0.28); }

  time(x) {
    const share = (x - this.left) / Math.max(1, this.canvas.clientWidth - this.left);
    return Math.min(1, Math.max(0, share)) * this.header.total;
  }

  listen() {
    const { canvas } = this;
    let start = null;
    canvas.addEventListener('pointerdown', (event) => {
      start = this.time(event.offsetX);
      canvas.setPointerCapture?.(event.pointerId);
    });
    canvas.addEventListener('pointermove', (event) => {
      if (start === null) return;
      this.range = [start, this.time(event.offsetX)].sort((a, b) => a - b);
      this.show();
    });
    canvas.addEventListener('pointerup', () => { start = null; });
  }

  show() {
    this.inputs.forEach((input, end) => { input.value = (this.range[end] / 1e6).toFixed(3); });
    this.paint();
  }

  paint() {
    const { canvas, header, strips, left } = this;
    const range = [Math.min(...this.range), Math.max(...this.range)];
    const read = header.parts.filter((part) => isWithin(part, range));
    const count = read.reduce((sum, { instructions }) => sum + instructions, 0);
    this.count.textContent = `reads ${formatCount(count)} instructions`;
    const style = getComputedStyle(document.documentElement);
    const color = (name) => style.getPropertyValue(name).trim();
    const width = canvas.clientWidth;
    const room = (window.innerHeight * 0.6) / strips.length;
    const STRIP = Math.round(Math.min(40, Math.max(14, room)));
    const height = strips.length * STRIP + AXIS;
    const context = sized(canvas, width, height);
    const colors = this.families.titles.map((_, family) => color(`--family-${family}`));
    strips.forEach(({ name, busy, families, isProgram }, k) => {
      const top = AXIS + k * STRIP;
      context.fillStyle = color('--text');
      context.fillText(fittedName(name, left - 10), 6, top + STRIP / 2);
      const step = (width - left) / busy.length;
      busy.forEach((share, at) => {
        if (!share) return;
        context.fillStyle = colors[isProgram ? this.families.program : families[at]];
        context.globalAlpha = 0.25 + 0.75 * (share / 255);
        context.fillRect(left + at * step, top + 1, Math.max(step, 1), STRIP - 2);
      });
      context.globalAlpha = 1;
    });
    const x = (time) => left + (time / (header.total || 1)) * (width - left);
    context.fillStyle = color('--faint');
    for (const share of [0, 0.25, 0.5, 0.75]) {
      context.fillText(formatTime(share * header.total), x(share * header.total) + 2, AXIS / 2);
    }
    context.fillStyle = `${color('--accent')}22`;
    context.strokeStyle = color('--accent');
    const wide = Math.max(x(range[1]) - x(range[0]), 2);
    context.fillRect(x(range[0]), AXIS - 6, wide, height);
    context.strokeRect(x(range[0]), AXIS - 6, wide, height - AXIS + 5);
  }
}
