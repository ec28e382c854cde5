// As much of a browser as the page at /docs uses: run by node with the server's address and a picture in base64.
const base = process.argv[2];
class Element {
  constructor(tag) { this.tag = tag; this.children = []; this.attributes = {}; this.value = ""; this.files = []; this.classList = { add() {}, remove() {} }; }
  setAttribute(name, value) { this.attributes[name] = String(value); if (name === "hidden") this.hidden = true; }
  append(...more) { for (const each of more) { this.children.push(each); if (each instanceof Element) each.parent = this; if (this.tag === "select" && this.value === "" && each.tag === "option") this.value = each.attributes.value ?? each.text; } }
  replaceChildren(...more) { this.children = []; this.append(...more); }
  replaceWith(other) { const all = this.parent.children; all[all.indexOf(this)] = other; other.parent = this.parent; }
  set textContent(text) { this.children = [text]; }
  get text() { return this.children.map(c => c instanceof Element ? c.text : String(c)).join(""); }
  all(tag) { return this.children.flatMap(c => c instanceof Element ? [...(c.tag === tag ? [c] : []), ...c.all(tag)] : []); }
}
const byId = Object.fromEntries(["key", "access", "title", "lead", "methods"].map(id => [id, new Element("div")]));
globalThis.document = { createElement: tag => new Element(tag), getElementById: id => byId[id] };
const real = globalThis.fetch;
globalThis.fetch = (path, options) => real(new URL(path, base + "/docs"), options && { ...options, duplex: "half" });
URL.createObjectURL = blob => `blob:${blob.size}`;
globalThis.location = { href: base + "/docs" };
const until = async condition => { while (!condition()) await new Promise(go => setTimeout(go, 5)); };
async function talk(card, connect) {
  const out = card.all("pre").find(each => each.attributes["aria-label"] === "messages");
  const button = text => card.all("button").find(each => each.text === text);
  const item = card.all("input").find(each => each.attributes["aria-label"] === "next item");
  connect.onclick();
  await until(() => connect.hidden);
  for (const value of ["1", "2"]) { const before = out.text; item.value = value; button("Say").onclick(); await until(() => out.text.length > before.length + 5); }
  button("No more").onclick();
  await until(() => out.text.includes("closed"));
  return out.text;
}
(async () => {
  const page = await (await real(base + "/docs")).text();
  (0, eval)(page.match(/<script>([^]*)<\/script>/)[1]);
  while (!byId.methods.all("details").length) { await new Promise(go => setTimeout(go, 5)); if (byId.methods.text.includes("could not")) throw new Error(byId.methods.text); }
  const png = new Blob([Uint8Array.from(atob(process.argv[3]), c => c.charCodeAt(0))], { type: "image/png" });
  const found = {};
  for (const card of byId.methods.all("details")) {
    const name = card.all("code")[0].text.slice(1);
    for (const input of card.all("input")) if (input.attributes.type === "file") input.files = [new File([png], "page.png", { type: "image/png" })];
    const [send] = card.all("button");
    await send.onclick();
    const connect = card.all("button").find(each => each.text === "Connect");
    const said = connect && globalThis.WebSocket ? await talk(card, connect) : "";
    const status = card.all("div").find(each => each.attributes.role === "status");
    found[name] = { text: status.text, said, pictures: status.all("img").map(i => i.attributes.alt), links: status.all("a").map(a => a.attributes.download),
      unnamed: ["input", "textarea", "select"].flatMap(tag => card.all(tag)).filter(each => !each.attributes["aria-label"]).length, card: card.text };
  }
  console.log(JSON.stringify(found));
})().catch(error => { console.error(error); process.exit(1); });
