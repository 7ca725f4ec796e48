import type { RpcMethods } from "./method.ts";

/** The page that lists all methods as links, as CometBFT shows it to browsers. @param host of the request */
export function endpointPage(methods: RpcMethods, host: string): string {
  const safeHost = host.replace(/[^\w.:[\]-]/g, "");
  const links = Object.keys(methods)
    .sort()
    .map((name) => {
      const query = (methods[name]?.args ?? []).map((arg) => `${arg.name}=_`).join("&");
      const link = `//${safeHost}/${name}?${query}`;
      return `<a href="${link}">${link}</a></br>`;
    });
  const head = "<br>Available endpoints:<br><br>Endpoints that require arguments:<br>";
  return `<html><body>${head}${links.join("")}</body></html>`;
}
