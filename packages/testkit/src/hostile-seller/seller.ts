import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";
import type { PaidCall, SellerMode } from "./mode.ts";
import { PaymentsChain, readSignedPayment, type SignedPayment } from "./payments-chain.ts";

/** The payment option of an honest seller, with some of its members changed. */
export const honestOption = (change: Readonly<Record<string, unknown>> = {}): Readonly<Record<string, unknown>> => ({
  scheme: "exact",
  network: "eip155:84532",
  amount: "5000",
  asset: "0x036CbD53842c5426634e7929541eC2318f3dCF7e",
  payTo: "0x209693Bc6afc0C5328bA36FaF03C514EF312287C",
  maxTimeoutSeconds: 60,
  extra: { name: "USDC", version: "2" },
  ...change,
});

const SERVICES = [
  {
    id: "eth",
    name: "Ethereum",
    description: "Reads of a chain.",
    category: "chains",
    price: { amount: "0.005", currency: "USD" },
    serves: true,
    paid: true,
    example: { method: "eth_blockNumber" },
    methods: ["eth_blockNumber"],
  },
];

const SOLD = '{"jsonrpc":"2.0","id":1,"result":"0x1"}';

const base64 = (value: unknown): string => Buffer.from(JSON.stringify(value)).toString("base64");

function sendJson(response: ServerResponse, status: number, json: string, headers: Readonly<Record<string, string>>) {
  response.writeHead(status, { "content-type": "application/json", ...headers }).end(json);
}

/** A gateway that is hostile in one way at a time. It signs nothing: what it settles is on its chain. */
export interface HostileSeller extends AsyncDisposable {
  /** Base URL, for a buyer. */
  readonly url: string;
  /** How it behaves, from the next request on. */
  mode: SellerMode;
  readonly chain: PaymentsChain;
  /** Payments in the order in which they were presented: one that was presented twice is there twice. */
  readonly presentations: SignedPayment[];
  /** Payments without repetitions: what the buyer signed. */
  signatures(): readonly SignedPayment[];
  /** Resolves when the mode has dealt with this many paid requests; one by default. */
  whenAnswered(requests?: number): Promise<void>;
}

/** Starts a seller of the service `eth`. */
export async function startHostileSeller(mode: SellerMode = { kind: "answer" }): Promise<HostileSeller> {
  let unpaid = 0;
  let answerCount = 0;
  const waiting = new Map<number, PromiseWithResolvers<void>>();
  const waitFor = (requests: number): PromiseWithResolvers<void> => {
    const wait = waiting.get(requests) ?? Promise.withResolvers<void>();
    waiting.set(requests, wait);
    return wait;
  };
  const answerUnpaid = (request: PaidCall["request"], response: ServerResponse): void => {
    unpaid += 1;
    const terms = (accepts: readonly unknown[]): void => {
      const resource = { url: `${seller.url}${request.path}`, description: "d", mimeType: "application/json" };
      const required = { x402Version: 2, error: "Payment required", resource, accepts };
      sendJson(response, 402, JSON.stringify(required), { "payment-required": base64(required) });
    };
    if (seller.mode.unpaid === undefined) terms([honestOption()]);
    else seller.mode.unpaid({ request, response, count: unpaid, terms });
  };
  const answerPaid = async (request: PaidCall["request"], response: ServerResponse, header: string): Promise<void> => {
    const { chain, presentations, mode: current } = seller;
    const payment = readSignedPayment(header);
    presentations.push(payment);
    const transfer = current.settles === false ? undefined : chain.settle(payment);
    const receipt: PaidCall["receipt"] = (change = {}) => {
      const usual = {
        success: true,
        transaction: transfer?.transaction ?? "",
        network: payment.network,
        payer: payment.from,
        extensions: { settlement: { id: "stl_1", status: "settled" } },
      };
      return { "payment-response": base64({ ...usual, ...change }) };
    };
    const portal = { provenance: "third-party-supplier", serviceId: "eth", schemaCheck: "passed" };
    const sell: PaidCall["sell"] = (data = SOLD) =>
      sendJson(response, 200, `{"portal":${JSON.stringify(portal)},"data":${data}}`, receipt());
    if (current.paid === undefined) return sell();
    const times = presentations.filter((one) => one.header === header).length;
    await current.paid({
      request,
      response,
      payment,
      presentations: times,
      payments: seller.signatures().length,
      chain,
      transfer,
      receipt,
      sell,
    });
  };
  const serve = async (incoming: IncomingMessage, response: ServerResponse): Promise<void> => {
    const path = incoming.url ?? "";
    const request = { verb: incoming.method ?? "", path, body: await text(incoming) };
    const header = incoming.headers["payment-signature"];
    if (path.startsWith("/v1/")) {
      if (typeof header !== "string") answerUnpaid(request, response);
      else await answerPaid(request, response, header).finally(() => waitFor(++answerCount).resolve());
    } else if (seller.mode.document?.(path, response) !== true) {
      if (path === "/services.json") sendJson(response, 200, JSON.stringify(SERVICES), {});
      else sendJson(response, 404, "{}", {});
    }
  };
  const server = createServer((incoming, response) => {
    response.on("error", () => {});
    // A buyer that leaves early ends its request here.
    serve(incoming, response).catch(() => response.destroy());
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const seller: HostileSeller = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    mode,
    chain: new PaymentsChain(),
    presentations: [],
    signatures: () => [...new Map(seller.presentations.map((payment) => [payment.header, payment])).values()],
    whenAnswered: (requests = 1) => waitFor(requests).promise,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise<void>((resolve) => server.close(() => resolve()));
    },
  };
  return seller;
}
