import { addClaim, makeEconomy } from "./testing-economy.ts";
import { blockAt, settlementMachine } from "./testing-recorded.ts";
const UNITS=7n;
for (const n of [600, 6000, 6000]) {
const { state, ctx } = makeEconomy({ applicationStakes: Array.from({length: Math.ceil(n/50)},()=>10n**12n), supplierStakes: Array.from({length: Math.min(n,5250)},()=>10n**9n), computeUnitsPerRelay: UNITS, tokenomics: {mintRatio:0.975, globalInflationPerClaim:0.000001}, proofRequestProbability: 0.01, penaltyUpokt: 1n, minStakeUpokt: 1n });
for (let i=0;i<n;i++) addClaim(ctx,{application: Math.floor(i/50), supplier: (i*7)%Math.min(n,5250), end: 20n, relays: BigInt(i+1), units: UNITS});
const machine=settlementMachine();
const t=performance.now();
const out=machine.runBlock(state, blockAt(30n,new Uint8Array(32)),[]);
console.log(n, ((performance.now()-t)/1000).toFixed(3),"s", out.events.length,"events", out.changes.length);
}
