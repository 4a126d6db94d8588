package outfile_test

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"weir/internal/outfile"
)

// A report that fails half-way leaves the one of yesterday in its place.
func Example() {
	folder, err := os.MkdirTemp("", "outfile")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = os.RemoveAll(folder) }()
	path := filepath.Join(folder, "report.txt")

	fmt.Println(outfile.WriteBytes(path, outfile.Public, []byte("yesterday's")))
	err = outfile.Write(path, outfile.Public, func(w io.Writer) error {
		fmt.Fprint(w, "today's, ")
		return errors.New("the server hung up")
	})
	fmt.Println(err)
	content, _ := os.ReadFile(path)
	fmt.Printf("%s\n", content)
	// Output:
	// <nil>
	// the server hung up
	// yesterday's
}
