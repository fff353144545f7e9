// The server's page: the list of reports, and uploads.

import "../style.css";
import "../sections/header.css";
import "./serve.css";
import { fill, h } from "../dom";
import { themeButton } from "../theme";
import * as api from "./api";
import { list } from "./list";
import { uploads } from "./uploads";

function start(app: HTMLElement): void {
  const problem = h("p", { role: "alert", class: "problem", hidden: true });
  const showProblem = (error: unknown) => {
    problem.textContent = error instanceof Error ? error.message : String(error);
    problem.hidden = false;
  };
  const shown = list();
  const refresh = () =>
    api.reports().then((rows) => {
      problem.hidden = true;
      shown.show(rows);
    }, showProblem);
  const sending = uploads(refresh);
  const bar = h(
    "div",
    { class: "inside" },
    h("h1", {}, "ttmem reports"),
    h("span", { class: "spacer" }),
    themeButton(),
  );
  fill(app, h("header", { class: "topbar" }, bar), h("main", {}, problem, sending.element, shown.element));
  void refresh();
  api.about().then(({ max_upload_bytes }) => sending.setLimit(max_upload_bytes), showProblem);
  api.jobs().then((jobs) => {
    const open = jobs.filter(({ state }) => state !== "done" && state !== "failed");
    for (const job of open.reverse()) sending.follow(job);
  }, showProblem);
  // Reports are also created elsewhere: refresh when the page becomes visible again.
  document.addEventListener("visibilitychange", () => {
    if (document.visibilityState === "visible") void refresh();
  });
}

const app = document.getElementById("app");
if (app) start(app);
