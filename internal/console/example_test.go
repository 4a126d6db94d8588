package console_test

import (
	"errors"
	"fmt"
	"os"

	"weir/internal/console"
)

// Names that a file brought cannot move the cursor.
func Example() {
	fmt.Println(console.Printable("llama\x1b[2J.gguf")) // \x1b[2J would clear the screen
	fmt.Println(console.ShortList([]string{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"}))
	console.Warn(os.Stdout, []string{"--threads 64 is more than this machine has"})
	// Output:
	// llama�[2J.gguf
	// a, b, c, d, e, f, g, h, i, j, k, l
	// warning: --threads 64 is more than this machine has
}

// An error of the command line has its way out on a line of its own.
func ExampleUsageError() {
	err := error(&console.UsageError{Err: errors.New("no such model: lama"), Hint: "did you mean llama?"})
	fmt.Println(err)
	if usage, ok := errors.AsType[*console.UsageError](err); ok {
		fmt.Println(usage.Hint)
	}
	// Output:
	// no such model: lama
	// did you mean llama?
}
