import type { Config } from "./schema.ts";

/** Ports of the supplier, when this configuration runs one. */
export function supplierPorts({
  supplier: { host, keys, metrics },
}: Config): readonly { readonly path: string; readonly host: string; readonly port: number }[] {
  return [
    ...keys.map(({ port }, at) => ({ path: `supplier.keys[${at}].port`, host, port })),
    ...(keys.length === 0 || metrics.port === undefined
      ? []
      : [{ path: "supplier.metrics.port", host: metrics.host, port: metrics.port }]),
  ];
}

function supplierFaults({ supplier: { nodeUrl, stateFolder, keys, services } }: Config): string[] {
  const faults: string[] = [];
  for (const [id, { backends, defaultRpcType, evmBounds }] of Object.entries(services)) {
    const path = `supplier.services.${id}`;
    if (evmBounds !== undefined && backends.json_rpc === undefined && backends.websocket === undefined) {
      faults.push(
        `${path}.evmBounds: not used, since there is no back-end json_rpc or websocket; add one, or remove it`,
      );
    }
    if (Object.keys(backends).length === 0) {
      faults.push(`${path}.backends: empty; set json_rpc, rest, comet_bft, websocket or grpc`);
    } else if (defaultRpcType !== undefined && backends[defaultRpcType] === undefined) {
      faults.push(`${path}.defaultRpcType: there is no back-end of ${defaultRpcType}; add it, or name another`);
    }
  }
  if (keys.length === 0) return faults;
  const named = new Map<string, number>();
  for (const [at, { operatorKeyFile }] of keys.entries()) {
    const twin = named.get(operatorKeyFile);
    if (twin !== undefined) faults.push(`supplier.keys[${at}].operatorKeyFile: the same as keys[${twin}]; remove one`);
    else named.set(operatorKeyFile, at);
  }
  if (nodeUrl === undefined) faults.push("supplier.nodeUrl: missing; set the RPC of a node of the chain");
  if (stateFolder === undefined) faults.push("supplier.stateFolder: missing; set a folder on a disk that survives");
  if (Object.keys(services).length === 0) faults.push("supplier.services: empty; name a service and its back-ends");
  return faults;
}

function saleFaults({ protocol, payment }: Config): string[] {
  const { sell, sellServices, sellOwners, nodeUrl } = protocol;
  const faults: string[] = [];
  if (sell === "all") {
    for (const key of ["sellServices", "sellOwners"] as const) {
      if (protocol[key].length > 0) {
        faults.push(`protocol.${key}: not used, since protocol.sell is all; set that to listed, or remove the list`);
      }
    }
    return faults;
  }
  if (payment.mode === "none") {
    faults.push("protocol.sell: payment.mode none sells nothing; remove protocol.sell, or set the mode to local");
  } else if (sellServices.length === 0 && sellOwners.length === 0) {
    faults.push(
      "protocol.sell: listed, and both lists are empty; fill sellServices or sellOwners, or set payment.mode to none to sell nothing",
    );
  }
  if (sellOwners.length > 0 && nodeUrl === undefined) {
    faults.push("protocol.sellOwners: owners are read from the chain; set protocol.nodeUrl, or use sellServices");
  }
  return faults;
}

function gatewayFaults({ protocol, suppliers }: Config): string[] {
  const { nodeUrl, gatewayKeyFile, applicationKeyFiles } = protocol;
  const hasKeys = gatewayKeyFile !== undefined || applicationKeyFiles.length > 0;
  if (nodeUrl === undefined) {
    return hasKeys ? ["protocol.nodeUrl: missing; the keys of `protocol` need a node of the chain"] : [];
  }
  const faults = hasKeys
    ? []
    : ["protocol.gatewayKeyFile: missing; without a key no relay can be signed. Set it, or applicationKeyFiles"];
  if (protocol.staticFallback && Object.keys(suppliers).length === 0) {
    faults.push("protocol.staticFallback: there is no static supplier; add `suppliers`, or set it to false");
  }
  if (protocol.staticFallback && applicationKeyFiles.length === 0 && !protocol.delegatedBeforeStatic) {
    faults.push(
      "protocol.staticFallback: not used, since services with static suppliers use no application that is delegated; set delegatedBeforeStatic to true or name applicationKeyFiles, or remove it",
    );
  }
  return faults;
}

/** The relay protocol: what a gateway and a supplier need to take part. */
export function protocolFaults(config: Config): string[] {
  return [...gatewayFaults(config), ...saleFaults(config), ...supplierFaults(config)];
}
