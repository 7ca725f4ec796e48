// Reads, checks, builds and signs whole relay messages with Go's protobuf, ring-go and decred's ECDSA. The messages'
// descriptors come with the question. Reads one JSON document, writes one.
package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"sort"

	secp "github.com/decred/dcrd/dcrec/secp256k1/v4"
	"github.com/decred/dcrd/dcrec/secp256k1/v4/ecdsa"
	"github.com/pokt-network/go-dleq/types"
	ring "github.com/pokt-network/ring-go"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"
)

type header struct {
	Application string `json:"application"`
	Service     string `json:"service"`
	Session     string `json:"session"`
	Start       int64  `json:"start"`
	End         int64  `json:"end"`
}

type httpPayload struct {
	Method  string      `json:"method"`
	URL     string      `json:"url"`
	Status  uint32      `json:"status"`
	Headers [][2]string `json:"headers"`
	Body    string      `json:"body"`
}

type question struct {
	// Files of proto, each a FileDescriptorProto.
	Files []string `json:"files"`
	// Messages to check.
	Requests  []string `json:"requests"`
	Responses []struct {
		Bytes string `json:"bytes"`
		Key   string `json:"key"`
	} `json:"responses"`
	// Relays to make: a request signed for a ring, and its response.
	Make []struct {
		Header      header      `json:"header"`
		Supplier    string      `json:"supplier"`
		Members     []string    `json:"members"`
		Key         string      `json:"key"`
		SupplierKey string      `json:"supplierKey"`
		Request     httpPayload `json:"request"`
		Response    httpPayload `json:"response"`
	} `json:"make"`
}

type checked struct {
	Valid bool `json:"valid"`
	// The whole message, and its payload, written again.
	Again        string      `json:"again"`
	PayloadAgain string      `json:"payloadAgain"`
	Digest       string      `json:"digest"`
	Header       header      `json:"header"`
	Supplier     string      `json:"supplier"`
	Payload      httpPayload `json:"payload"`
	// The payload's hash is that of the payload.
	Hashed bool `json:"hashed"`
}

type made struct {
	Request  string `json:"request"`
	Response string `json:"response"`
}

type answer struct {
	Requests  []checked `json:"requests"`
	Responses []checked `json:"responses"`
	Made      []made    `json:"made"`
}

var (
	curve = ring.Secp256k1()
	files *protoregistry.Files
)

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

func unhex(text string) []byte { return must(hex.DecodeString(text)) }

func newMessage(name protoreflect.FullName) *dynamicpb.Message {
	found := must(files.FindDescriptorByName(name))
	return dynamicpb.NewMessage(found.(protoreflect.MessageDescriptor))
}

func field(message protoreflect.Message, name protoreflect.Name) protoreflect.FieldDescriptor {
	found := message.Descriptor().Fields().ByName(name)
	if found == nil {
		panic(fmt.Sprintf("%s has no %s", message.Descriptor().FullName(), name))
	}
	return found
}

func set(message protoreflect.Message, name protoreflect.Name, value any) {
	message.Set(field(message, name), protoreflect.ValueOf(value))
}

func get(message protoreflect.Message, name protoreflect.Name) protoreflect.Value {
	return message.Get(field(message, name))
}

func inner(message protoreflect.Message, name protoreflect.Name) protoreflect.Message {
	return message.Mutable(field(message, name)).Message()
}

func encode(message protoreflect.Message) []byte {
	return must(proto.MarshalOptions{Deterministic: true}.Marshal(message.Interface()))
}

func decode(name protoreflect.FullName, data []byte) protoreflect.Message {
	message := newMessage(name)
	if err := proto.Unmarshal(data, message); err != nil {
		panic(err)
	}
	return message
}

// The message without its signature, and without the payload where a hash stands for it: what is signed.
func digestOf(message protoreflect.Message, signature protoreflect.Name) [32]byte {
	copied := proto.Clone(message.Interface()).ProtoReflect()
	meta := inner(copied, "meta")
	meta.Clear(field(meta, signature))
	if hash := copied.Descriptor().Fields().ByName("payload_hash"); hash != nil && copied.Has(hash) {
		copied.Clear(field(copied, "payload"))
	}
	return sha256.Sum256(encode(copied))
}

func headerOf(message protoreflect.Message) header {
	head := inner(inner(message, "meta"), "session_header")
	return header{
		Application: get(head, "application_address").String(),
		Service:     get(head, "service_id").String(),
		Session:     get(head, "session_id").String(),
		Start:       get(head, "session_start_block_height").Int(),
		End:         get(head, "session_end_block_height").Int(),
	}
}

func setHeader(message protoreflect.Message, from header) {
	head := inner(inner(message, "meta"), "session_header")
	set(head, "application_address", from.Application)
	set(head, "service_id", from.Service)
	set(head, "session_id", from.Session)
	set(head, "session_start_block_height", from.Start)
	set(head, "session_end_block_height", from.End)
}

func payloadOf(name protoreflect.FullName, data []byte) (httpPayload, string) {
	message := decode(name, data)
	payload := httpPayload{Body: hex.EncodeToString(get(message, "body_bz").Bytes()), Headers: [][2]string{}}
	if name == "sdk.types.POKTHTTPRequest" {
		payload.Method, payload.URL = get(message, "method").String(), get(message, "url").String()
	} else {
		payload.Status = uint32(get(message, "status_code").Uint())
	}
	// As the network's gateways and relay miners read them.
	headers := http.Header{}
	get(message, "header").Map().Range(func(key protoreflect.MapKey, value protoreflect.Value) bool {
		values := get(value.Message(), "values").List()
		for i := 0; i < values.Len(); i++ {
			headers.Add(key.String(), values.Get(i).String())
		}
		return true
	})
	for key, values := range headers {
		for _, value := range values {
			payload.Headers = append(payload.Headers, [2]string{key, value})
		}
	}
	sort.SliceStable(payload.Headers, func(a, b int) bool { return payload.Headers[a][0] < payload.Headers[b][0] })
	return payload, hex.EncodeToString(encode(message))
}

func encodePayload(name protoreflect.FullName, payload httpPayload) []byte {
	message := newMessage(name)
	if name == "sdk.types.POKTHTTPRequest" {
		set(message, "method", payload.Method)
		set(message, "url", payload.URL)
	} else {
		set(message, "status_code", payload.Status)
	}
	headers := http.Header{}
	for _, one := range payload.Headers {
		headers.Add(one[0], one[1])
	}
	entries := message.Mutable(field(message, "header")).Map()
	for key, values := range headers {
		value := entries.NewValue()
		set(value.Message(), "key", key)
		list := value.Message().Mutable(field(value.Message(), "values")).List()
		for _, one := range values {
			list.Append(protoreflect.ValueOfString(one))
		}
		entries.Set(protoreflect.ValueOfString(key).MapKey(), value)
	}
	set(message, "body_bz", unhex(payload.Body))
	return encode(message)
}

func check(data []byte, name, payload protoreflect.FullName, signature protoreflect.Name, valid func([32]byte, []byte) bool) checked {
	message := decode(name, data)
	digest := digestOf(message, signature)
	bytesOf := get(message, "payload").Bytes()
	result := checked{
		Valid:  valid(digest, get(inner(message, "meta"), signature).Bytes()),
		Again:  hex.EncodeToString(encode(message)),
		Digest: hex.EncodeToString(digest[:]),
		Header: headerOf(message),
	}
	result.Payload, result.PayloadAgain = payloadOf(payload, bytesOf)
	if name == "pocket.service.RelayRequest" {
		result.Supplier = get(inner(message, "meta"), "supplier_operator_address").String()
	} else {
		hash := sha256.Sum256(bytesOf)
		result.Hashed = bytes.Equal(hash[:], get(message, "payload_hash").Bytes())
	}
	return result
}

func ringValid(digest [32]byte, signature []byte) (ok bool) {
	defer func() {
		if recover() != nil {
			ok = false
		}
	}()
	sig := new(ring.RingSig)
	return sig.Deserialize(curve, signature) == nil && sig.Verify(digest)
}

func ringSign(digest [32]byte, key []byte, members []string) []byte {
	points := make([]types.Point, len(members))
	for i, member := range members {
		points[i] = must(curve.DecodeToPoint(unhex(member)))
	}
	keys := must(ring.NewFixedKeyRingFromPublicKeys(curve, points))
	return must(must(keys.Sign(digest, must(curve.DecodeToScalar(key)))).Serialize())
}

// Cosmos' signature: of the digest's hash, r and s in 64 bytes, s in the lower half.
func operatorValid(key []byte) func([32]byte, []byte) bool {
	return func(digest [32]byte, signature []byte) bool {
		public, err := secp.ParsePubKey(key)
		var r, s secp.ModNScalar
		if err != nil || len(signature) != 64 || r.SetByteSlice(signature[:32]) || s.SetByteSlice(signature[32:]) || s.IsOverHalfOrder() {
			return false
		}
		hash := sha256.Sum256(digest[:])
		return ecdsa.NewSignature(&r, &s).Verify(hash[:], public)
	}
}

func operatorSign(digest [32]byte, key []byte) []byte {
	hash := sha256.Sum256(digest[:])
	return ecdsa.SignCompact(secp.PrivKeyFromBytes(key), hash[:], true)[1:]
}

func main() {
	var asked question
	if err := json.NewDecoder(os.Stdin).Decode(&asked); err != nil {
		panic(err)
	}
	var known descriptorpb.FileDescriptorSet
	for _, one := range asked.Files {
		file := new(descriptorpb.FileDescriptorProto)
		if err := proto.Unmarshal(unhex(one), file); err != nil {
			panic(err)
		}
		known.File = append(known.File, file)
	}
	files = must(protodesc.NewFiles(&known))
	const requestName, responseName = "pocket.service.RelayRequest", "pocket.service.RelayResponse"
	const httpRequest, httpResponse = "sdk.types.POKTHTTPRequest", "sdk.types.POKTHTTPResponse"
	found := answer{Requests: []checked{}, Responses: []checked{}, Made: []made{}}
	for _, one := range asked.Requests {
		found.Requests = append(found.Requests, check(unhex(one), requestName, httpRequest, "signature", ringValid))
	}
	for _, one := range asked.Responses {
		valid := operatorValid(unhex(one.Key))
		found.Responses = append(found.Responses, check(unhex(one.Bytes), responseName, httpResponse, "supplier_operator_signature", valid))
	}
	for _, one := range asked.Make {
		request := newMessage(requestName)
		setHeader(request, one.Header)
		set(inner(request, "meta"), "supplier_operator_address", one.Supplier)
		set(request, "payload", encodePayload(httpRequest, one.Request))
		set(inner(request, "meta"), "signature", ringSign(digestOf(request, "signature"), unhex(one.Key), one.Members))
		response := newMessage(responseName)
		setHeader(response, one.Header)
		payload := encodePayload(httpResponse, one.Response)
		hash := sha256.Sum256(payload)
		set(response, "payload", payload)
		set(response, "payload_hash", hash[:])
		signature := operatorSign(digestOf(response, "supplier_operator_signature"), unhex(one.SupplierKey))
		set(inner(response, "meta"), "supplier_operator_signature", signature)
		found.Made = append(found.Made, made{hex.EncodeToString(encode(request)), hex.EncodeToString(encode(response))})
	}
	if err := json.NewEncoder(os.Stdout).Encode(found); err != nil {
		panic(err)
	}
}
