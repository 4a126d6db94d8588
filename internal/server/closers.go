package server

import (
	"context"
	"errors"
)

// closers is what a server has taken so far and has to give back: the last that came is closed first. A start that fails
// half-way and the end of a server that ran use it alike.
type closers struct {
	list []closer
}

type closer struct {
	name  string
	close func(ctx context.Context) error
}

// push adds what is to be closed before all that is there already. ctx bounds how long it waits for requests.
func (c *closers) push(name string, close func(ctx context.Context) error) {
	c.list = append(c.list, closer{name, close})
}

// pushed adds what closes at once.
func (c *closers) pushed(name string, close func()) {
	c.push(name, func(context.Context) error { close(); return nil })
}

// close closes all, once; later calls do nothing.
func (c *closers) close(ctx context.Context) error {
	var errs []error
	for len(c.list) > 0 {
		last := c.list[len(c.list)-1]
		c.list = c.list[:len(c.list)-1]
		errs = append(errs, last.close(ctx))
	}
	return errors.Join(errs...)
}
