// Package servertest starts servers for tests, in the test's process or in one of their own, and asks them what several tests ask:
//
//	s := servertest.Start(t, func(c *configs.Config) { c.Model.ServedNames = []string{"chat"} })
//	status, text, version := s.Said("chat")
//
// Beside them are what servers work on: stores with keys and audit logs, files of models, a stand-in of a hub, settings.
package servertest
