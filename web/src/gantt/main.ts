// A page of its own for what ran when.

import "../style.css";
import "../sections/header.css";
import { unpack } from "../data/block";
import { Lines } from "../data/lines";
import { fill, h } from "../dom";
import type { GanttPageHead } from "../generated/answers";
import { themeButton } from "../theme";
import { unpackGantt } from "./data";
import { GanttView } from "./view";

async function start(app: HTMLElement): Promise<void> {
  const [head, packed] = await Promise.all([unpack<GanttPageHead>("head"), unpack("texts")]);
  if (!head || !packed) throw new Error("there is no data in this page");
  const { name, file, generator, ranks } = head.meta;
  const texts = new Lines(packed, "texts");
  const views = new Map<number, GanttView>();
  let view: GanttView | undefined;
  const theme = themeButton(() => view?.recolor());
  const body = h("div", { class: "section-body" });
  const show = async (rank: number): Promise<void> => {
    const known = views.get(rank);
    if (!known) {
      const data = await unpackGantt(rank, texts);
      if (!data) throw new Error(`there is no rank ${rank} in this page`);
      views.set(rank, new GanttView(data));
    }
    view = views.get(rank);
    view?.recolor();
    fill(body, view?.element);
  };
  const select = h("select", { id: "rank-choice" });
  ranks.forEach((rank, index) => {
    select.append(h("option", { value: index }, rank ?? String(index)));
  });
  select.addEventListener("change", () => void show(Number(select.value)).catch(reportError));
  const title = h("h1", { title: file }, name);
  const choice = ranks.length > 1 && h("label", {}, "rank", select);
  const inside = h("div", { class: "inside" }, title, choice, h("span", { class: "spacer" }), theme);
  await show(0);
  const section = h(
    "section",
    { id: "gantt", "aria-labelledby": "gantt-title" },
    h("header", { class: "section-head" }, h("h2", { id: "gantt-title" }, "What ran when")),
    body,
  );
  const foot = h("p", { class: "note" }, `Made by ${generator} from ${file}`);
  fill(app, h("header", { class: "topbar" }, inside), h("main", {}, section, foot));
  addEventListener("keydown", (event) => {
    const isTyping = event.target instanceof Element && event.target.closest("input, select, textarea");
    if (event.key !== "/" || isTyping || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    view?.focusSearch();
  });
  app.removeAttribute("aria-busy");
}

const app = document.getElementById("app");
if (app) {
  start(app).catch((error: unknown) => {
    const message = error instanceof Error ? error.message : String(error);
    const help = "It is tried with Chromium 156 and Firefox 153; much older ones cannot unpack it.";
    fill(app, h("p", { role: "alert", class: "note" }, `This chart cannot be shown: ${message}. ${help}`));
  });
}
