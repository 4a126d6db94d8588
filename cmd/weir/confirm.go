package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"weir/internal/console"
)

// confirm has a person type a name again before what cannot be undone. Where there is no terminal it is an error that
// names --yes.
func confirm(cmd *cobra.Command, what, name string) error {
	in, ok := cmd.InOrStdin().(*os.File)
	errs := cmd.ErrOrStderr()
	if !ok || !term.IsTerminal(int(in.Fd())) || !console.IsTerminal(errs) {
		return &console.UsageError{Err: errors.New(what + " Give --yes where there is no terminal")}
	}
	return typedAgain(in, errs, what, name)
}

func typedAgain(in io.Reader, out io.Writer, what, name string) error {
	fmt.Fprintf(out, "%s Type %s to go on: ", what, name)
	answer, err := bufio.NewReader(in).ReadString('\n')
	if err != nil || strings.TrimSpace(answer) != name {
		return errors.New("the name was not typed; nothing is deleted")
	}
	return nil
}
