/** What everything on the chain is staked and paid in: a millionth of a POKT. */
export const BOND_DENOM = "upokt";
