package envelope_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"weir/internal/envelope"
)

// A record is encrypted with a data key of its tenant, which is kept encrypted with the master key.
func Example() {
	master, err := envelope.NewSecret(bytes.Repeat([]byte("k"), envelope.MinSecretBytes)) // from a file of the operator's
	if err != nil {
		fmt.Println(err)
		return
	}
	masters := envelope.Masters{master}
	key, wrapped, err := masters.New(context.Background(), "acme")
	if err != nil {
		fmt.Println(err)
		return
	}
	label := envelope.Label{Tenant: "acme", Kind: "weir_responses.input", ID: "resp_1"}
	sealed := key.Seal(label, []byte("What is TTFT?"))
	fmt.Println(len(sealed)-len("What is TTFT?") == envelope.SealedBytes)

	again, err := masters.Open(context.Background(), wrapped) // after a restart
	if err != nil {
		fmt.Println(err)
		return
	}
	plain, err := again.Open(label, sealed)
	fmt.Printf("%s %v\n", plain, err)
	label.Tenant = "other"
	_, err = again.Open(label, sealed)
	fmt.Println("as a record of another tenant:", errors.Is(err, envelope.ErrSealed))
	// Output:
	// true
	// What is TTFT? <nil>
	// as a record of another tenant: true
}

// A file is encrypted as it is written and decrypted as it is read.
func ExampleReader() {
	master, err := envelope.NewSecret(bytes.Repeat([]byte("k"), envelope.MinSecretBytes))
	if err != nil {
		fmt.Println(err)
		return
	}
	key, _, err := envelope.Masters{master}.New(context.Background(), "acme")
	if err != nil {
		fmt.Println(err)
		return
	}
	label := envelope.Label{Tenant: "acme", Kind: "weir_files", ID: "file-1"}
	var file, plain bytes.Buffer
	w, err := key.Writer(label, &file)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Fprintln(w, `{"custom_id": "1"}`)
	if err := w.Close(); err != nil {
		fmt.Println(err)
		return
	}
	r, err := envelope.Reader(label, &file, func(id string) (*envelope.DataKey, error) { return key, nil })
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = plain.ReadFrom(r)
	fmt.Print(plain.String(), err, "\n")
	// Output:
	// {"custom_id": "1"}
	// <nil>
}
