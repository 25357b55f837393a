// The notebook as its user sees it: a second MCP client of the host, which
// reads the cells and never changes them.

const shown = 4000; // characters of one text
export const large = 1 << 20; // a notebook of more characters is shown once

export function show(socket, main) {
  let last = 0, asking = false, again = false, ready = false;
  const send = (message) => socket.send(JSON.stringify({ jsonrpc: "2.0", ...message }));
  const request = (method, params) => send({ id: ++last, method, params });

  function changed() {
    if (!ready || asking) {
      again = true;
      return;
    }
    asking = true;
    again = false;
    request("tools/call", { name: "get_cells", arguments: { includeOutputs: true } });
  }

  socket.onopen = () => request("initialize", {
    protocolVersion: "2025-06-18", capabilities: {}, clientInfo: { name: "view", version: "1" },
  });
  socket.onmessage = ({ data }) => {
    const { id, result } = JSON.parse(data);
    if (id === 1) {
      send({ method: "notifications/initialized" });
      ready = true;
      changed();
      return;
    }
    if (!result) return;
    asking = data.length > large;
    const cells = result.structuredContent.cells;
    main.replaceChildren(...cells.map(draw));
    // A cell that runs says nothing when it has ended; one that never ran
    // looks the same.
    if (again || cells.some((c) => c.cell_type === "code" && c.execution_count === null && c.source.length)) setTimeout(changed, 200);
  };
  return { changed };
}

function draw(cell) {
  const code = cell.cell_type === "code";
  const div = element("section", code ? "cell code" : "cell text");
  div.dataset.id = cell.id;
  const count = div.appendChild(element("span", "count"));
  if (code) {
    div.dataset.count = cell.execution_count ?? "";
    count.textContent = `[${cell.execution_count ?? " "}]`;
  }
  div.append(element("pre", "source", text(cell.source)));
  for (const output of cell.outputs ?? []) div.append(drawOutput(output));
  return div;
}

function drawOutput(output) {
  if (output.output_type === "stream") return element("pre", "stream", text(output.text));
  if (output.output_type === "error") return element("pre", "error", text(output.traceback, "\n").replace(/\x1b\[[\d;]*m/g, ""));
  for (const type of ["image/png", "image/jpeg"]) {
    if (!output.data?.[type]) continue;
    const image = element("img", "image");
    image.src = `data:${type};base64,${text(output.data[type], "", Infinity)}`;
    return image;
  }
  return element("pre", "result", text(output.data?.["text/plain"] ?? ""));
}

// text joins what nbformat may have as a list of lines.
function text(value, between = "", limit = shown) {
  const whole = Array.isArray(value) ? value.join(between) : value;
  return whole.length > limit ? whole.slice(0, limit) + " …" : whole;
}

function element(tag, className, content = "") {
  const e = document.createElement(tag);
  e.className = className;
  e.textContent = content;
  return e;
}
