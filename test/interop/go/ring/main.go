// Verifies and makes ring signatures with ring-go. Reads one JSON document, writes one.
package main

import (
	"encoding/hex"
	"encoding/json"
	"os"
	"time"

	"github.com/pokt-network/go-dleq/types"
	ring "github.com/pokt-network/ring-go"
)

type question struct {
	// Rounds of everything; only the last one's answers are given. For measuring.
	Rounds int `json:"rounds"`
	Verify []struct {
		Digest    string `json:"digest"`
		Signature string `json:"signature"`
	} `json:"verify"`
	Sign []struct {
		Digest  string   `json:"digest"`
		Key     string   `json:"key"`
		Members []string `json:"members"`
	} `json:"sign"`
}

type answer struct {
	Verify       []bool   `json:"verify"`
	Sign         []string `json:"sign"`
	VerifyMicros int64    `json:"verifyMicros"`
	SignMicros   int64    `json:"signMicros"`
}

var curve = ring.Secp256k1()

func unhex(text string) []byte {
	bytes, err := hex.DecodeString(text)
	if err != nil {
		panic(err)
	}
	return bytes
}

// A fault of ring-go itself is a refusal, too.
func verify(digest [32]byte, signature []byte) (ok bool) {
	defer func() {
		if recover() != nil {
			ok = false
		}
	}()
	sig := new(ring.RingSig)
	if err := sig.Deserialize(curve, signature); err != nil {
		return false
	}
	return sig.Verify(digest)
}

func sign(digest [32]byte, key []byte, members []string) string {
	private, err := curve.DecodeToScalar(key)
	if err != nil {
		panic(err)
	}
	points := make([]types.Point, len(members))
	for i, member := range members {
		if points[i], err = curve.DecodeToPoint(unhex(member)); err != nil {
			panic(err)
		}
	}
	keys, err := ring.NewFixedKeyRingFromPublicKeys(curve, points)
	if err != nil {
		panic(err)
	}
	sig, err := keys.Sign(digest, private)
	if err != nil {
		panic(err)
	}
	bytes, err := sig.Serialize()
	if err != nil {
		panic(err)
	}
	return hex.EncodeToString(bytes)
}

func main() {
	var asked question
	if err := json.NewDecoder(os.Stdin).Decode(&asked); err != nil {
		panic(err)
	}
	var told answer
	for round := 0; round < max(1, asked.Rounds); round++ {
		told.Verify, told.Sign = []bool{}, []string{}
		start := time.Now()
		for _, one := range asked.Verify {
			told.Verify = append(told.Verify, verify([32]byte(unhex(one.Digest)), unhex(one.Signature)))
		}
		told.VerifyMicros = time.Since(start).Microseconds()
		start = time.Now()
		for _, one := range asked.Sign {
			told.Sign = append(told.Sign, sign([32]byte(unhex(one.Digest)), unhex(one.Key), one.Members))
		}
		told.SignMicros = time.Since(start).Microseconds()
	}
	if err := json.NewEncoder(os.Stdout).Encode(told); err != nil {
		panic(err)
	}
}
