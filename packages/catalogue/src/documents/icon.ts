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

/** A small image of a service: a monogram on its category's colour; test networks are outlined. */
export function iconSvg(service: Service): string {
  const colour = COLOURS[service.category];
  const isOutlined = service.network === "testnet";
  const [fill, ink] = isOutlined ? ["#ffffff", colour] : [colour, "#ffffff"];
  const edge = isOutlined ? ` stroke="${colour}" stroke-width="4"` : "";
  return (
    `<svg xmlns="http://www.w3.org/2000/svg" width="64" height="64" viewBox="0 0 64 64" role="img">` +
    `<rect x="2" y="2" width="60" height="60" rx="14" fill="${fill}"${edge}/>` +
    `<text x="32" y="33" fill="${ink}" font-family="system-ui,sans-serif" font-size="28" font-weight="700" ` +
    `text-anchor="middle" dominant-baseline="central">${monogram(service)}</text></svg>`
  );
}
