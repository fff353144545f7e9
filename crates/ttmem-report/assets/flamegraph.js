// Zoom and search of a flame graph. It runs inside the SVG file, without any other file.
(function () {
  "use strict";
  var svg = document.documentElement;
  var frames = Array.prototype.slice.call(svg.querySelectorAll(".f"));
  var left = Number(svg.dataset.left), width = Number(svg.dataset.width), total = Number(svg.dataset.total);
  var reset = document.getElementById("reset"), search = document.getElementById("search");
  var matched = document.getElementById("matched");
  var words = "";
  var of = function (frame) {
    return { from: Number(frame.dataset.s), to: Number(frame.dataset.e), depth: Number(frame.dataset.d) };
  };
  var name = function (frame) { return frame.querySelector("title").textContent; };
  var clip = function (text, room) {
    var most = Math.floor(room / 6.4);
    return text.length <= most ? text : most < 4 ? "" : text.slice(0, most - 1) + "\u2026";
  };
  function zoom(on) {
    var view = of(on), scale = width / (view.to - view.from);
    frames.forEach(function (frame) {
      var at = of(frame);
      // Callers of the selected frame fill the width; frames beside it are hidden.
      var caller = at.depth < view.depth && at.from <= view.from && at.to >= view.to;
      var from = Math.max(at.from, view.from), to = Math.min(at.to, view.to);
      var shown = to > from && (caller || at.depth >= view.depth);
      frame.style.display = shown ? "" : "none";
      if (!shown) return;
      var x = left + (from - view.from) * scale, w = (to - from) * scale;
      var rect = frame.querySelector("rect"), text = frame.querySelector("text");
      rect.setAttribute("x", x.toFixed(2));
      rect.setAttribute("width", Math.max(w, 0.3).toFixed(2));
      text.setAttribute("x", (x + 4).toFixed(2));
      text.textContent = clip(frame.dataset.n, w - 6);
    });
    reset.style.display = view.depth === 0 ? "none" : "";
  }
  function find(text) {
    words = text.trim().toLowerCase();
    var sum = 0, end = -1;
    frames.forEach(function (frame) {
      var is = words !== "" && name(frame).split("\n")[0].toLowerCase().indexOf(words) >= 0;
      frame.classList.toggle("hit", is);
      var at = of(frame);
      // In document order, everything that a match calls lies inside it and counts once.
      if (is && at.from >= end) { sum += at.to - at.from; end = at.to; }
    });
    matched.textContent = words === "" ? "" : "matched: " + (sum / total * 100).toFixed(1) + "%";
  }
  function ask() {
    var text = prompt("Search functions and files:", words);
    if (text !== null) find(text);
  }
  var onKey = function (then) {
    return function (event) { if (event.key === "Enter" || event.key === " ") { event.preventDefault(); then(); } };
  };
  frames.forEach(function (frame) {
    frame.addEventListener("click", function () { zoom(frame); });
    frame.addEventListener("keydown", onKey(function () { zoom(frame); }));
  });
  [[reset, function () { zoom(frames[0]); }], [search, ask]].forEach(function (pair) {
    pair[0].addEventListener("click", pair[1]);
    pair[0].addEventListener("keydown", onKey(pair[1]));
  });
  search.style.display = "";
})();
