// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {SmartWallet} from "./SmartWallet.sol";

/// @title Deploys wallets at addresses that are known before (CREATE2), for tests of ERC-6492
contract WalletFactory {
    function createWallet(address owner, bytes32 salt) external returns (address wallet) {
        wallet = walletOf(owner, salt);
        if (wallet.code.length == 0) new SmartWallet{salt: salt}(owner);
    }

    function walletOf(address owner, bytes32 salt) public view returns (address) {
        bytes32 codeHash = keccak256(abi.encodePacked(type(SmartWallet).creationCode, abi.encode(owner)));
        return address(uint160(uint256(keccak256(abi.encodePacked(hex"ff", address(this), salt, codeHash)))));
    }
}
