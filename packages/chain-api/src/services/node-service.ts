import type { GasPrice } from "@turnpike/chain";
import { nsToTimestamp } from "@turnpike/cometbft";
import { baseNode, createMessage } from "@turnpike/proto";
import { type ApiMethod, type ApiModules, answered, apiMethod } from "./api-method.ts";

const DECIMALS = 18n;

/** Prices as the SDK prints them: 18 places and the denomination, such as `0.000001000000000000upokt`. */
function gasPricesText(prices: readonly GasPrice[]): string {
  return prices
    .map(({ denom, numerator, denominator }) => {
      const digits = ((numerator * 10n ** DECIMALS) / denominator).toString().padStart(Number(DECIMALS) + 1, "0");
      return `${digits.slice(0, -Number(DECIMALS))}.${digits.slice(-Number(DECIMALS))}${denom}`;
    })
    .join(",");
}

export interface NodeServiceOptions {
  /** What the mempool asks for. */
  readonly gasPrices: readonly GasPrice[];
  /** States that are kept; 0: all. */
  readonly pruningKeepBlocks?: bigint;
}

/** `cosmos.base.node.v1beta1.Service` by gRPC path. */
export function nodeService(
  { gasPrices, pruningKeepBlocks = 0n }: NodeServiceOptions,
  { source }: ApiModules,
): Record<string, ApiMethod> {
  const path = (name: string): string => `/cosmos.base.node.v1beta1.Service/${name}`;
  return {
    [path("Config")]: apiMethod(baseNode.ConfigRequestSchema, baseNode.ConfigResponseSchema, () =>
      answered(
        createMessage(baseNode.ConfigResponseSchema, {
          minimumGasPrice: gasPricesText(gasPrices),
          pruningKeepRecent: pruningKeepBlocks.toString(),
          pruningInterval: "0",
        }),
      ),
    ),
    [path("Status")]: apiMethod(
      baseNode.StatusRequestSchema,
      baseNode.StatusResponseSchema,
      async (_, { heightBlocks }) => {
        const header = (await source.block(heightBlocks))?.block.header;
        return answered(
          createMessage(baseNode.StatusResponseSchema, {
            height: heightBlocks,
            ...(header === undefined
              ? {}
              : {
                  timestamp: nsToTimestamp(header.timeNs),
                  appHash: header.appHash,
                  validatorHash: header.validatorsHash,
                }),
          }),
        );
      },
    ),
  };
}
