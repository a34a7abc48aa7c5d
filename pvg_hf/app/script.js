// Keys, views whose state is the address, and the study's clock. Gradio draws everything else.
(() => {
  const KEYS = { ArrowRight: "#next", n: "#next", ArrowLeft: "#previous", p: "#previous", Escape: "#back" };
  const button = (selector) => {
    const found = document.querySelector(selector);
    return found && (found.matches("button, a") ? found : found.querySelector("button"));
  };
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.repeat) return;
    if (event.target.closest("input:not([type=checkbox], [type=radio]), textarea, select, [role=listbox], [contenteditable=true]")) return;
    if (event.key === "l" && document.querySelector("#labelling:not(.not-shown)")) {
      event.preventDefault();
      return document.querySelector("#label input:checked").focus();
    }
    if (moveInTable(event)) return event.preventDefault();
    if (event.key.startsWith("Arrow") && event.target.closest("[role=region], [type=radio]")) return;
    const selector = KEYS[event.key] || (/^[1-6]$/.test(event.key) && `#judge-${event.key}`);
    const pressed = selector && button(selector);
    if (pressed && pressed.offsetParent && !pressed.disabled) {
      event.preventDefault();
      pressed.click();
    }
  });

  // The address is the state of a view (views.py): a link or a form changes it, and asks the server for the new view.
  const values = () => new URLSearchParams(location.search);
  let asked = "";
  const ask = (query) => {
    const box = document.querySelector("#address textarea, #address input");
    asked = query;
    box.value = query;
    box.dispatchEvent(new Event("input", { bubbles: true }));
  };
  const visit = (query, { from = "", replace = false } = {}) => {
    const selected = values().get("sel"); // rows are selected here: the server's links do not know the newest
    const next = new URLSearchParams(query);
    if (selected) next.set("sel", selected);
    else next.delete("sel");
    const address = `?${next}`.replaceAll("%2C", ",");
    history[replace ? "replaceState" : "pushState"](null, "", location.pathname + address);
    ask(from + address);
  };
  window.addEventListener("popstate", () => document.querySelector("#address") && ask(location.search || "?"));
  let opened = null; // key of the row that was opened last
  document.addEventListener("click", (event) => {
    if (event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
    const row = event.target.closest("table.solutions tbody tr");
    const link = event.target.closest("a") || (row && !event.target.closest("input") && row.querySelector("a.row"));
    if (!link || !link.closest("#view, #view-form") || !(link.getAttribute("href") || "").startsWith("?")) return;
    event.preventDefault();
    opened = link.dataset.key || opened;
    const next = new URLSearchParams(link.getAttribute("href"));
    if (link.dataset.step && values().has("at")) {
      next.set("at", Number(values().get("at")) + Number(link.dataset.step)); // presses while the server answers count, too
      next.delete("open");
    }
    visit(next.toString());
  });
  let typing = null;
  const fill = (form, replace) => {
    const chosen = [...new FormData(form)].filter(([name, value]) => value || name === "sort");
    visit(new URLSearchParams(chosen).toString(), { from: replace ? "form" : "", replace });
  };
  document.addEventListener("input", (event) => {
    if (!event.target.matches("#view-form input[type=search]")) return;
    clearTimeout(typing);
    typing = setTimeout(() => fill(event.target.form, true), 300);
  });
  document.addEventListener("submit", (event) => {
    if (!event.target.closest("#view-form")) return;
    event.preventDefault();
    fill(event.target, false);
  });
  const showSelected = () => {
    const number = (values().get("sel") || "").split(",").filter(Boolean).length;
    const place = document.querySelector("#num-selected");
    if (place) place.textContent = number ? `${number} selected` : "";
  };
  document.addEventListener("change", (event) => {
    if (event.target.matches("#view-form select")) return fill(event.target.form, false);
    if (!event.target.matches("table.solutions input")) return;
    const next = values();
    const kept = (next.get("sel") || "").split(",").filter((key) => key && key !== event.target.value);
    if (event.target.checked) kept.push(event.target.value);
    if (kept.length) next.set("sel", kept.join(","));
    else next.delete("sel");
    history.replaceState(null, "", `${location.pathname}?${next}`.replaceAll("%2C", ","));
    showSelected();
  });
  const moveInTable = (event) => {
    const rows = [...document.querySelectorAll("table.solutions a.row")];
    if (!rows.length) return false;
    const place = rows.findIndex((row) => row.closest("tr").contains(document.activeElement));
    if (event.key === "ArrowDown") rows[Math.min(place + 1, rows.length - 1)].focus();
    else if (event.key === "ArrowUp") rows[Math.max(place - 1, 0)].focus();
    else if (event.key === "x" && place >= 0) rows[place].closest("tr").querySelector("input").click();
    else if (event.key === "/") document.querySelector("#view-form input[type=search]").focus();
    else return false;
    return true;
  };
  // A new view: its own address replaces what was asked for, and the focus stays where the reader was. Gradio changes the elements
  // that are there, so that what was ticked or chosen in them must be set again.
  let seen = null;
  new MutationObserver(() => {
    const view = document.querySelector("#view .view");
    if (!view || view.dataset.asked + view.dataset.address === seen) return;
    seen = view.dataset.asked + view.dataset.address;
    showSelected();
    if (view.dataset.asked !== asked) return; // the answer to an earlier question
    const next = new URLSearchParams(view.dataset.address);
    const selected = values().get("sel");
    if (selected) next.set("sel", selected);
    const address = `?${next}`.replaceAll("%2C", ",");
    if (address !== location.search) history.replaceState(null, "", location.pathname + address);
    const ticked = new Set((selected || "").split(","));
    for (const box of view.querySelectorAll("table.solutions input")) box.checked = ticked.has(box.value);
    if (!asked.startsWith("form")) {
      for (const field of document.querySelectorAll("#view-form :is(select, input)")) {
        const standard = field.options?.[0]?.value; // none in an empty select
        field.value = next.get(field.name) ?? standard ?? "";
      }
    }
    if (document.activeElement !== document.body) return;
    const row = opened && view.querySelector(`a.row[data-key="${opened}"]`);
    if (row) row.focus();
  }).observe(document, { childList: true, subtree: true, attributeFilter: ["data-asked", "data-address"] });

  // Presses of Previous and Next are counted here: those that come while the server answers are sent with the next call.
  let steps = 0;
  document.addEventListener(
    "click",
    (event) => {
      if (event.target.closest("#next")) steps += 1;
      if (event.target.closest("#previous")) steps -= 1;
    },
    true,
  );
  window.pvgTakeSteps = () => {
    const taken = steps;
    steps = 0;
    return taken;
  };

  // The server keeps the time; this shows it, from what was left when the solution arrived.
  let clock = null;
  setInterval(() => {
    const place = document.querySelector(".countdown");
    if (!place) return (clock = null);
    const { item, seconds } = place.dataset;
    if (!clock || clock.item !== item || clock.place !== place) {
      clock = { item, place, end: performance.now() + 1000 * seconds, told: false, over: false, whole: null };
    }
    const left = Math.max(0, (clock.end - performance.now()) / 1000);
    place.querySelector("strong").textContent = Math.ceil(left);
    place.classList.toggle("late", left <= 10);
    const study = place.closest(".study");
    const bar = study.querySelector(".bar div");
    clock.whole = clock.whole || left / (parseFloat(bar.style.width) / 100);
    bar.style.width = `${(100 * left) / clock.whole}%`;
    if (left <= 10 && !clock.told && seconds > 10) {
      clock.told = true;
      study.querySelector(".announcement").textContent = "Ten seconds left";
    }
    if (left === 0 && !clock.over) {
      clock.over = true;
      button("#time-ran-out").click();
    }
  }, 200);
})();
