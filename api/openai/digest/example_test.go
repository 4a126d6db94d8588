package digest_test

import (
	"fmt"

	"weir/api/openai/digest"
)

// Each value is hashed with its length, so that values which read alike one after the other differ.
func Example() {
	of := func(texts ...string) string {
		d := digest.New()
		for _, text := range texts {
			d.Text(text)
		}
		d.Integer(40)
		d.Flag(true)
		return fmt.Sprintf("%x", d.Sum(nil)[:4])
	}
	first, again, other := of("stop", "word"), of("stop", "word"), of("sto", "pword")
	fmt.Println(first == again, first == other)
	// Output: true false
}
