import { chainFault, type Family, supplierFault } from "./family.ts";
import { http } from "./http.ts";

/**
 * Services of which nothing is known but their form. What a back-end says is wrong may be the client's fault or its own:
 * it is never sold, and held against no supplier. There is nothing to probe.
 */
export const unknown: Family = {
  id: "unknown",
  parse: (service, input) => http.parse(service, input),
  judgeRpcError: () => chainFault("error"),
  judgeHttpError: (status) => (status < 500 ? chainFault("error") : supplierFault("http_status")),
  errorsOverHttp500: false,
  isLegacyRpc: false,
  probe: () => undefined,
};
