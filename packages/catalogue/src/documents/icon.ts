import type { Category, Service } from "../types.ts";

const COLOURS: Readonly<Record<Category, string>> = {
  web: "#2563eb",
  blockchain: "#4f46e5",
  health: "#dc2626",
  compliance: "#b45309",
  government: "#475569",
  finance: "#15803d",
  research: "#7e22ce",
  documents: "#0e7490",
  security: "#be185d",
  ai: "#c2410c",
};

function monogram({ id }: Service): string {
  const [first = "", second] = id.split("-");
  return (second === undefined ? first.slice(0, 2) : `${first.slice(0, 1)}${second.slice(0, 1)}`).toUpperCase();
}

const CELLS = 24;
const CELL_WIDTH = 2;
const BAND_Y = 52;

/** FNV-1a, 32 bits. */
function digest(text: string): number {
  let hash = 0x811c9dc5;
  for (const byte of Buffer.from(text)) hash = Math.imul(hash ^ byte, 0x01000193) >>> 0;
  return hash;
}

/** A band of bars that is another for each id, so that services with the same letters look different. */
function band({ id }: Service): string {
  const bits = digest(id);
  const x = 32 - (CELLS * CELL_WIDTH) / 2;
  const bars = Array.from({ length: CELLS }, (_, cell) =>
    ((bits >>> cell) & 1) === 1 ? `M${x + cell * CELL_WIDTH} ${BAND_Y}h${CELL_WIDTH}v4h-${CELL_WIDTH}z` : "",
  );
  return bars.join("");
}

/** A small image of a service: a monogram on its category's colour, and a band that is its own; test networks are outlined. */
export function iconSvg(service: Service): string {
  const colour = COLOURS[service.category];
  const isOutlined = service.network === "testnet";
  const [fill, ink] = isOutlined ? ["#ffffff", colour] : [colour, "#ffffff"];
  const edge = isOutlined ? ` stroke="${colour}" stroke-width="4"` : "";
  return (
    `<svg xmlns="http://www.w3.org/2000/svg" width="64" height="64" viewBox="0 0 64 64" role="img" ` +
    `aria-label="${service.id}"><rect x="2" y="2" width="60" height="60" rx="14" fill="${fill}"${edge}/>` +
    `<text x="32" y="29" fill="${ink}" font-family="system-ui,sans-serif" font-size="28" font-weight="700" ` +
    `text-anchor="middle" dominant-baseline="central">${monogram(service)}</text>` +
    `<path fill="${ink}" d="${band(service)}"/></svg>`
  );
}

/** The image of the product itself: a road through a gate. */
export function productIconSvg(): string {
  return (
    `<svg xmlns="http://www.w3.org/2000/svg" width="64" height="64" viewBox="0 0 64 64" role="img" ` +
    `aria-label="Turnpike"><rect x="2" y="2" width="60" height="60" rx="14" fill="#1e293b"/>` +
    `<path fill="#ffffff" d="M12 18h40v8H36v26h-8V26H12z"/>` +
    `<path fill="#22c55e" d="M12 36h12v6H12zM40 36h12v6H40z"/></svg>`
  );
}
