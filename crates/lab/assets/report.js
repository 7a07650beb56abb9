// Draws the charts of a sealane lab report. Reads the embedded data only; loads nothing, sends nothing.
"use strict";
(function () {
  const root = document.documentElement;
  const read = (id) => JSON.parse(document.getElementById(id).textContent);
  const charts = read("charts");
  root.classList.add("js");

  // Lines beyond the first eight are dashed; beyond the palette, colours come again.
  const SOLID = 8, SERIES = 12;
  // Lines are named at their ends where there is room, and in a legend elsewhere.
  const ROOM_PIXELS = 480, NAME_PIXELS = 14, NAME_FONT = "12px system-ui, sans-serif";
  const plots = [];

  // A custom property is text until an element uses it as a colour.
  const probe = document.body.appendChild(document.createElement("i"));
  probe.hidden = true;
  const css = (name) => {
    probe.style.color = `var(${name})`;
    return getComputedStyle(probe).color;
  };
  const isDark = () => root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  const figure = (value) => value == null ? "" : value >= 100 ? Math.round(value).toLocaleString("en") : value.toPrecision(3);

  function drawBars(chart, colours) {
    const count = chart.series.length, slot = 0.8 / count;
    return (u) => {
      const ctx = u.ctx, pixels = devicePixelRatio;
      ctx.save();
      chart.series.forEach((series, s) => {
        if (!u.series[s + 1].show) return;
        series.median.forEach((median, x) => {
          if (median == null) return;
          const from = x - 0.4 + s * slot + slot * 0.07;
          const left = u.valToPos(from, "x", true), right = u.valToPos(from + slot * 0.86, "x", true);
          const top = u.valToPos(median, "y", true), base = u.valToPos(chart.is_logarithmic ? u.scales.y.min : 0, "y", true);
          ctx.fillStyle = colours[s % colours.length];
          ctx.fillRect(left, top, right - left, base - top);
          const middle = (left + right) / 2, half = Math.min(4 * pixels, (right - left) / 3);
          const low = u.valToPos(series.low[x], "y", true), high = u.valToPos(series.high[x], "y", true);
          ctx.strokeStyle = css("--ink");
          ctx.globalAlpha = 0.7;
          ctx.lineWidth = 1.25 * pixels;
          ctx.beginPath();
          ctx.moveTo(middle, low); ctx.lineTo(middle, high);
          ctx.moveTo(middle - half, low); ctx.lineTo(middle + half, low);
          ctx.moveTo(middle - half, high); ctx.lineTo(middle + half, high);
          ctx.stroke();
          ctx.globalAlpha = 1;
        });
      });
      ctx.restore();
    };
  }

  // Each series on top of those before it that are shown.
  function drawStacks(chart, colours) {
    return (u) => {
      const ctx = u.ctx, tops = chart.labels.map(() => 0);
      ctx.save();
      chart.series.forEach((series, s) => {
        if (!u.series[s + 1].show) return;
        series.median.forEach((value, x) => {
          if (value == null) return;
          const left = u.valToPos(x - 0.35, "x", true), right = u.valToPos(x + 0.35, "x", true);
          const base = u.valToPos(tops[x], "y", true);
          tops[x] += value;
          const top = u.valToPos(tops[x], "y", true);
          ctx.fillStyle = colours[s % colours.length];
          ctx.fillRect(left, top, right - left, base - top);
        });
      });
      ctx.restore();
    };
  }

  // What other work disturbed has the mark that it has in the tables.
  function drawDoubts(chart, isStacked) {
    const slot = 0.8 / chart.series.length;
    return (u) => {
      const ctx = u.ctx, pixels = devicePixelRatio, tops = chart.labels.map(() => 0);
      ctx.save();
      ctx.font = NAME_FONT.replace(/^\d+/, (size) => size * pixels);
      ctx.fillStyle = css("--bad");
      ctx.textAlign = "center";
      ctx.textBaseline = "bottom";
      chart.series.forEach((series, s) => {
        if (!u.series[s + 1].show) return;
        series.median.forEach((value, x) => {
          if (value == null) return;
          tops[x] += value;
          if (!series.doubtful[x]) return;
          const isBars = chart.kind === "bars";
          const at = u.valToPos(isBars ? x - 0.4 + (s + 0.5) * slot : x, "x", true);
          ctx.fillText("\u2020", at, u.valToPos(isStacked ? tops[x] : isBars ? series.high[x] : value, "y", true) - 4 * pixels);
        });
      });
      ctx.restore();
    };
  }

  function drawBands(chart, colours) {
    return (u) => {
      const ctx = u.ctx;
      ctx.save();
      ctx.globalAlpha = 0.16;
      chart.series.forEach((series, s) => {
        if (!u.series[s + 1].show || series.is_ideal) return;
        const known = series.median.map((value, x) => x).filter((x) => series.median[x] != null);
        if (known.length === 0) return;
        ctx.fillStyle = colours[s % colours.length];
        ctx.beginPath();
        known.forEach((x) => ctx.lineTo(u.valToPos(x, "x", true), u.valToPos(series.high[x], "y", true)));
        known.slice().reverse().forEach((x) => ctx.lineTo(u.valToPos(x, "x", true), u.valToPos(series.low[x], "y", true)));
        ctx.closePath();
        ctx.fill();
      });
      ctx.restore();
    };
  }

  // A name for each line, at its last point, or as near to that as the other names permit.
  function drawNames(chart, colours) {
    return (u) => {
      const ctx = u.ctx, pixels = devicePixelRatio, gap = NAME_PIXELS * pixels;
      const names = chart.series.map((series, s) => {
        const last = series.is_published ? -1 : series.median.findLastIndex((value) => value != null);
        return last < 0 ? null : { text: series.name, colour: series.is_ideal ? css("--faint") : colours[s % colours.length],
          x: u.valToPos(last, "x", true), y: u.valToPos(series.median[last], "y", true) };
      }).filter((name) => name).sort((one, other) => one.y - other.y);
      const top = u.bbox.top + gap / 2, bottom = u.bbox.top + u.bbox.height - gap / 2;
      names.forEach((name, n) => { name.at = Math.max(name.y, n === 0 ? top : names[n - 1].at + gap); });
      for (let n = names.length - 1, limit = bottom; n >= 0; n -= 1, limit = names[n + 1].at - gap) {
        names[n].at = Math.min(names[n].at, limit);
      }
      ctx.save();
      ctx.font = NAME_FONT.replace(/^\d+/, (size) => size * pixels);
      ctx.textAlign = "left";
      ctx.textBaseline = "middle";
      ctx.lineWidth = pixels;
      names.forEach((name) => {
        const x = u.bbox.left + u.bbox.width + 8 * pixels;
        ctx.fillStyle = ctx.strokeStyle = name.colour;
        ctx.globalAlpha = 0.5;
        ctx.beginPath();
        ctx.moveTo(name.x + 5 * pixels, name.y); ctx.lineTo(x - 2 * pixels, name.at);
        ctx.stroke();
        ctx.globalAlpha = 1;
        ctx.fillText(name.text, x, name.at);
      });
      if (chart.series.some((series) => series.is_published)) {
        ctx.fillStyle = css("--soft");
        ctx.fillText("\u25cb the paper", u.bbox.left + u.bbox.width + 8 * pixels, u.bbox.top + u.bbox.height);
      }
      ctx.restore();
    };
  }

  function nameWidth(chart) {
    const ctx = document.createElement("canvas").getContext("2d");
    ctx.font = NAME_FONT;
    return Math.max(...chart.series.map((series) => ctx.measureText(series.name).width));
  }

  function draw(chart) {
    const holder = document.getElementById(chart.id);
    const palette = Array.from({ length: SERIES }, (_, index) => css(`--series-${index}`));
    // The paper's points have the colour of our line of the same name.
    const colours = chart.series.map((one, index) => palette[chart.series.findIndex((own) => own.name === one.name) % SERIES]);
    const isStacked = chart.kind === "stacked", isBars = isStacked || chart.kind === "bars";
    const xs = chart.labels.map((_, index) => index);
    const heights = isStacked
      ? chart.labels.map((_, x) => chart.series.reduce((sum, series) => sum + (series.median[x] || 0), 0))
      : chart.series.flatMap((series) => series.high.filter((value) => value != null));
    const highest = Math.max(...heights, 0);
    // Where one bar would flatten the rest: from a power of ten below the least to one above the most.
    const positive = chart.series.flatMap((series) => series.median.filter((value) => value > 0));
    const isLogarithmic = chart.is_logarithmic && positive.length > 0;
    const power = (value, round) => 10 ** round(Math.log10(value));
    const scale = isLogarithmic
      ? { distr: 3, range: [power(Math.min(...positive) / 1.01, Math.floor), power(highest, Math.ceil)] }
      : { range: [0, highest * 1.06 || 1] };
    const pad = isBars ? 0.55 : 0.12;
    const lines = chart.series.filter((one) => !one.is_published && !one.is_ideal).length;
    const hasNames = !isBars && lines > 1 && holder.clientWidth >= ROOM_PIXELS;
    const axis = { stroke: css("--soft"), grid: { stroke: css("--line"), width: 1 }, ticks: { show: false }, font: "12.5px system-ui, sans-serif" };
    const series = chart.series.map((one, index) => ({
      label: one.is_published ? "\u25cb the paper" : one.name,
      stroke: one.is_ideal ? css("--faint") : colours[index % colours.length],
      fill: isBars ? colours[index % colours.length] : undefined,
      width: one.is_published ? 0 : one.is_ideal ? 1 : 2,
      dash: one.is_ideal ? [2, 3] : index >= SOLID ? [7, 4] : undefined,
      spanGaps: true,
      paths: isBars ? () => null : undefined,
      points: { show: !isBars && !one.is_ideal, size: one.is_published ? 10 : 7, fill: one.is_published ? css("--card") : colours[index % colours.length] },
      value: (u, value) => figure(value),
    }));
    // Labels that have no room beside each other stand aslant.
    const longest = Math.max(...chart.labels.map((label) => label.length), 1);
    const isTight = (holder.clientWidth - 80) / xs.length < 7 * longest + 6;
    const slant = isTight ? { rotate: -55, size: 34 + 6 * longest } : {};
    const options = {
      width: Math.max(260, holder.clientWidth),
      height: isBars ? 300 : 320,
      legend: { show: !hasNames },
      padding: hasNames ? [null, Math.ceil(nameWidth(chart)) + 14, null, null] : undefined,
      cursor: { y: false, points: { show: !isBars }, drag: { x: false, y: false } },
      scales: { x: { time: false, range: [-pad, xs.length - 1 + pad] }, y: scale },
      axes: [
        Object.assign({}, axis, slant, { grid: { show: false }, splits: () => xs, values: () => chart.labels, label: chart.x_label || undefined, labelSize: 22, labelFont: "12.5px system-ui, sans-serif" }),
        Object.assign({}, axis, { size: 64, values: (u, values) => values.map((value) => value == null ? "" : value.toLocaleString("en")) }),
      ],
      series: [{ label: chart.x_label || "level", value: (u, value) => value == null ? "" : chart.labels[Math.round(value)] }].concat(series),
      hooks: isBars
        ? { draw: [(isStacked ? drawStacks : drawBars)(chart, colours), drawDoubts(chart, isStacked)] }
        : { drawAxes: [drawBands(chart, colours)], draw: (hasNames ? [drawNames(chart, colours)] : []).concat(drawDoubts(chart, false)) },
    };
    const plot = new uPlot(options, [xs].concat(chart.series.map((one) => one.median)), holder);
    // The colours of the paper's points are those of our lines: one entry says that they are hollow.
    const published = chart.series.map((one, index) => one.is_published ? index : -1).filter((index) => index >= 0);
    const entries = plot.root.querySelectorAll(".u-legend .u-series");
    published.slice(1).forEach((index) => entries[index + 1]?.remove());
    plots.push({ holder, plot, height: options.height });
  }

  function drawAll() {
    plots.splice(0).forEach((one) => one.plot.destroy());
    charts.forEach(draw);
  }
  drawAll();
  addEventListener("resize", () => plots.forEach((one) => one.plot.setSize({ width: Math.max(260, one.holder.clientWidth), height: one.height })));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);
  document.getElementById("theme").addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    drawAll();
  });
  document.getElementById("save")?.addEventListener("click", () => {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([JSON.stringify(read("report"), null, 2) + "\n"], { type: "application/json" }));
    link.download = "sealane-report.json";
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  });
})();
