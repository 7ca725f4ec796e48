import { DASHBOARDS, type Dashboard, type Panel } from "./dashboard-panels.ts";

const WIDTH = 24;
const PANEL_WIDTH = 8;
const PANEL_HEIGHT = 8;
const SOURCE = { type: "prometheus", uid: "$datasource" };

interface Place {
  readonly x: number;
  readonly y: number;
  readonly w: number;
  readonly h: number;
}

function panelJson(panel: Panel, id: number, gridPos: Place): unknown {
  return {
    id,
    type: panel.isStat === true ? "stat" : "timeseries",
    title: panel.title,
    datasource: SOURCE,
    gridPos,
    fieldConfig: { defaults: { unit: panel.unit }, overrides: [] },
    options:
      panel.isStat === true
        ? { reduceOptions: { calcs: ["lastNotNull"], fields: "", values: false } }
        : { legend: { displayMode: "list", placement: "bottom" }, tooltip: { mode: "multi", sort: "desc" } },
    targets: panel.queries.map(([expr, legendFormat], at) => ({
      refId: String.fromCharCode(65 + at),
      datasource: SOURCE,
      expr,
      legendFormat,
    })),
  };
}

/** Text of a dashboard as Grafana imports it: rows of three panels. */
export function dashboardJson({ file, title, rows }: Dashboard): string {
  const panels: unknown[] = [];
  let y = 0;
  for (const row of rows) {
    const gridPos = { x: 0, y: y++, w: WIDTH, h: 1 };
    panels.push({ id: panels.length + 1, type: "row", title: row.title, collapsed: false, gridPos, panels: [] });
    const perLine = WIDTH / PANEL_WIDTH;
    for (const [at, panel] of row.panels.entries()) {
      const place = {
        x: (at % perLine) * PANEL_WIDTH,
        y: y + Math.floor(at / perLine) * PANEL_HEIGHT,
        w: PANEL_WIDTH,
        h: PANEL_HEIGHT,
      };
      panels.push(panelJson(panel, panels.length + 1, place));
    }
    y += Math.ceil(row.panels.length / perLine) * PANEL_HEIGHT;
  }
  const datasource = { name: "datasource", type: "datasource", query: "prometheus", label: "Data source" };
  const dashboard = {
    uid: `turnpike-${file}`,
    title,
    tags: ["turnpike"],
    schemaVersion: 39,
    editable: true,
    graphTooltip: 1,
    refresh: "30s",
    time: { from: "now-6h", to: "now" },
    timezone: "browser",
    templating: { list: [datasource] },
    panels,
  };
  return `${JSON.stringify(dashboard, null, 2)}\n`;
}

/** Every dashboard's path and text. */
export function dashboardFiles(): readonly { readonly path: string; readonly text: string }[] {
  return DASHBOARDS.map((one) => ({ path: `ops/dashboards/${one.file}.json`, text: dashboardJson(one) }));
}
