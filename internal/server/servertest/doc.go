// Package servertest has what tests of servers share: certificates, a collector of spans, output that is read while it is
// written.
package servertest
