// The page of the server: the list of reports, and uploads.

import "../style.css";
import "../sections/header.css";
import "./serve.css";
import { fill, h } from "../dom";
import { themeButton } from "../theme";
import * as api from "./api";
import { list } from "./list";
import { uploads } from "./uploads";

function start(app: HTMLElement): void {
  const trouble = h("p", { role: "alert", class: "trouble", hidden: true });
  const complain = (error: unknown) => {
    trouble.textContent = error instanceof Error ? error.message : String(error);
    trouble.hidden = false;
  };
  const shown = list();
  const refresh = () =>
    api.reports().then((rows) => {
      trouble.hidden = true;
      shown.show(rows);
    }, complain);
  const sending = uploads(refresh);
  const bar = h(
    "div",
    { class: "inside" },
    h("h1", {}, "ttmem reports"),
    h("span", { class: "spacer" }),
    themeButton(),
  );
  fill(app, h("header", { class: "topbar" }, bar), h("main", {}, trouble, sending.element, shown.element));
  void refresh();
  api.about().then(({ max_upload_bytes }) => sending.setLimit(max_upload_bytes), complain);
  api.jobs().then((jobs) => {
    const open = jobs.filter(({ state }) => state !== "done" && state !== "failed");
    for (const job of open.reverse()) sending.follow(job);
  }, complain);
  // Reports are made elsewhere, too: whoever comes back to this page sees them.
  document.addEventListener("visibilitychange", () => {
    if (document.visibilityState === "visible") void refresh();
  });
}

const app = document.getElementById("app");
if (app) start(app);
