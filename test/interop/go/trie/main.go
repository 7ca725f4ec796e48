// Builds sparse Merkle sum tries, proves and verifies with smt. Reads one JSON document, writes one.
package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"time"

	"github.com/pokt-network/smt"
	"github.com/pokt-network/smt/kvstore/simplemap"
)

type leaf struct {
	Key    string `json:"key"`
	Value  string `json:"value"`
	Weight uint64 `json:"weight,string"`
}

type question struct {
	Tries []struct {
		Leaves []leaf   `json:"leaves"`
		Paths  []string `json:"paths"`
	} `json:"tries"`
	Verify []struct {
		Root  string `json:"root"`
		Proof string `json:"proof"`
	} `json:"verify"`
}

type trie struct {
	Root         string   `json:"root"`
	Proofs       []string `json:"proofs"`
	InsertMicros int64    `json:"insertMicros"`
	RootMicros   int64    `json:"rootMicros"`
}

type verdict struct {
	Read bool `json:"read"`
	Ok   bool `json:"ok"`
}

type answer struct {
	Tries  []trie    `json:"tries"`
	Verify []verdict `json:"verify"`
}

var spec = smt.NewTrieSpec(sha256.New(), true, smt.WithValueHasher(nil))

func unhex(text string) []byte {
	bytes, err := hex.DecodeString(text)
	if err != nil {
		panic(err)
	}
	return bytes
}

// A fault of smt itself is a refusal, too.
func verify(root, proof []byte) (told verdict) {
	defer func() {
		if recover() != nil {
			told.Ok = false
		}
	}()
	compact := new(smt.SparseCompactMerkleClosestProof)
	if err := compact.Unmarshal(proof); err != nil {
		return told
	}
	told.Read = true
	ok, err := smt.VerifyCompactClosestProof(compact, root, &spec)
	told.Ok = ok && err == nil
	return told
}

func build(leaves []leaf, paths []string) trie {
	type ready struct {
		key, value []byte
		weight     uint64
	}
	prepared := make([]ready, len(leaves))
	for i, one := range leaves {
		prepared[i] = ready{unhex(one.Key), unhex(one.Value), one.Weight}
	}
	made := smt.NewSparseMerkleSumTrie(simplemap.NewSimpleMap(), sha256.New(), smt.WithValueHasher(nil))
	start := time.Now()
	for _, one := range prepared {
		if err := made.Update(one.key, one.value, one.weight); err != nil {
			panic(err)
		}
	}
	inserted := time.Now()
	root := hex.EncodeToString(made.Root())
	told := trie{Root: root, Proofs: []string{}}
	told.InsertMicros = inserted.Sub(start).Microseconds()
	told.RootMicros = time.Since(inserted).Microseconds()
	for _, path := range paths {
		proof, err := made.ProveClosest(unhex(path))
		if err != nil {
			panic(err)
		}
		compact, err := smt.CompactClosestProof(proof, &spec)
		if err != nil {
			panic(err)
		}
		bytes, err := compact.Marshal()
		if err != nil {
			panic(err)
		}
		told.Proofs = append(told.Proofs, hex.EncodeToString(bytes))
	}
	return told
}

func main() {
	var asked question
	if err := json.NewDecoder(os.Stdin).Decode(&asked); err != nil {
		panic(err)
	}
	told := answer{Tries: []trie{}, Verify: []verdict{}}
	for _, one := range asked.Tries {
		told.Tries = append(told.Tries, build(one.Leaves, one.Paths))
	}
	for _, one := range asked.Verify {
		told.Verify = append(told.Verify, verify(unhex(one.Root), unhex(one.Proof)))
	}
	if err := json.NewEncoder(os.Stdout).Encode(told); err != nil {
		panic(err)
	}
}
