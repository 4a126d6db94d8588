package schema_test

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"weir/internal/reference"
	"weir/tokenizer/grammar/schema"
)

// TestRandomSchemas draws texts of random schemas, with all ways of contraries and with few, in order and in any, and has Python's jsonschema
// check them. WEIR_RANDOM_SCHEMAS says how many schemas.
func TestRandomSchemas(t *testing.T) {
	reference.Slow(t)
	count := reference.Repeats(0, 30, 250)
	if n, err := strconv.Atoi(os.Getenv("WEIR_RANDOM_SCHEMAS")); err == nil {
		count = n
	}
	out, err := exec.Command(python(t), "testdata/random_schemas.py", strconv.Itoa(count)).Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, anyOrder := range []bool{false, true} {
		for _, steps := range []int{0, 300} {
			t.Run(fmt.Sprintf("any order %v, steps %d", anyOrder, steps), func(t *testing.T) {
				o := schema.Served(true)
				o.AnyOrder, o.Limits.Work = anyOrder, steps
				d := drawn{options: o}
				for text := range strings.Lines(string(out)) {
					d.add(t, "draft2020-12", text, 4)
				}
				d.check(t, count)
			})
		}
	}
}
