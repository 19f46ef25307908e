// Runs the script of a page in a document of stubs and prints, for every cell that is pointed at, the labels drawn; or,
// for every layer and head that are chosen, the weight told of the first cell.
import { readFileSync } from "node:fs";
const text = readFileSync(process.argv[2], "utf8"), wide = +process.argv[3];
const scripts = [...text.matchAll(/<script[^>]*>([\s\S]*?)<\/script>/g)].map(found => found[1]);
const width = label => 7 * [...label].length;
let drawn = [];
function pen() {
  let at = [0, 0], turned = false;
  const noted = { measureText: label => ({ width: width(label) }), save() {}, restore() { at = [0, 0]; turned = false; },
    translate(x, y) { at = [x, y]; }, rotate() { turned = true; }, createImageData: (w, h) => ({ data: new Uint8ClampedArray(4 * w * h) }),
    fillText(label, x, y) { drawn.push({ label, x: at[0] + x, y: at[1] + y, width: width(label), turned, align: noted.textAlign, here: noted.fillStyle === "--mark" }); } };
  return new Proxy(noted, { get: (one, name) => name in one ? one[name] : () => {}, set: (one, name, value) => (one[name] = value, true) });
}
function element() {
  const ink = pen(), one = { style: {}, children: [], clientWidth: wide, classList: { toggle() {} }, setAttribute() {},
    append(...more) { one.children.push(...more); }, add(more) { one.children.push(more); }, replaceChildren(...all) { one.children = all; all.forEach(child => child.parentElement = one); },
    getContext: () => ink, getBoundingClientRect: () => ({ left: 0, top: 0 }), scrollTop: 0, clientHeight: 100, offsetTop: 0, offsetHeight: 20 };
  return one;
}
const found = {};
const by = id => found[id] ??= element();
by("data").textContent = scripts[0];
Object.assign(globalThis, { self: globalThis, devicePixelRatio: 1, Option: class { constructor(name, value) { this.name = name; this.value = value; } },
  document: { getElementById: by, createElement: element, documentElement: {} }, matchMedia: () => ({ matches: false }),
  getComputedStyle: () => ({ getPropertyValue: name => name }), addEventListener() {} });
(0, eval)(scripts[1]);
const choices = JSON.parse(process.argv[5] || "[]");
const press = key => by("map").onkeydown({ key, preventDefault() {} });
if (choices.length) {  // a layer and a head each: what is then told of the first cell
  press("ArrowRight");
  const names = id => by(id).children.map(option => option.name);
  console.log(JSON.stringify(choices.map(([layer, head]) => {
    if (layer !== null) { by("layer").onchange({ target: { value: String(layer) } }); by("head").onchange({ target: { value: String(head) } }); }
    return { weight: by("reading").children.at(-1).textContent, layers: names("layer"), heads: names("head"), cells: by("panels").children.length };
  })));
  process.exit();
}
const shown = [drawn], steps = +process.argv[4];
press("ArrowRight");
for (let i = 0; i < steps; i++) { drawn = []; press(i % 2 ? "ArrowDown" : "ArrowRight"); shown.push(drawn); }
console.log(JSON.stringify(shown));
