// Helpers of every canvas: its size, texts that fit, a tip that stays inside.

const FONT = '11px system-ui, "DejaVu Sans", sans-serif';
// The mean width of a letter.
const LETTER = 6.2;

// Gives a canvas its size on the screen, and returns its context in pixels of the page.
function sized(canvas, width, height) {
  const ratio = window.devicePixelRatio || 1;
  canvas.style.height = `${height}px`;
  const [wide, high] = [Math.round(width * ratio), Math.round(height * ratio)];
  if (canvas.width !== wide || canvas.height !== high) [canvas.width, canvas.height] = [wide, high];
  const context = canvas.getContext('2d');
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  context.font = FONT;
  context.textBaseline = 'middle';
  return context;
}

// Writes as much of a text as fits.
function writeText(context, text, [from, to], y, color) {
  const fits = Math.floor((to - from) / LETTER);
  if (fits < 2) return;
  context.fillStyle = color;
  const isLong = text.length > fits;
  context.fillText(isLong ? `${text.slice(0, Math.max(1, fits - 1))}…` : text, from, y);
}

// The end of a name that is too long for the column of names.
function fittedName(name, wide) {
  const room = Math.floor(wide / LETTER);
  return name.length > room ? `…${name.slice(1 - room)}` : name;
}

// Shows a tip beside a point of a box, within what can be seen of the box.
function placeTip(tip, text, [x, y], box) {
  tip.hidden = !text;
  if (!text) return;
  tip.textContent = text;
  const [right, bottom] = [box.scrollLeft + box.clientWidth, box.scrollTop + box.clientHeight];
  tip.style.maxWidth = `${Math.min(360, box.clientWidth - 8)}px`;
  tip.style.left = '0';
  const left = Math.max(box.scrollLeft, Math.min(x + 12, right - tip.offsetWidth - 4));
  const below = y + 14 + tip.offsetHeight <= bottom - 2;
  const above = Math.max(box.scrollTop, y - tip.offsetHeight - 8);
  tip.style.left = `${left}px`;
  tip.style.top = `${below ? y + 14 : above}px`;
}
