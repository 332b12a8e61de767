// Package fakeherdr is a simulated Herdr: it answers the commands that
// herdr-link's toolsets use as captures of the real one do, down to key order, error
// codes, exit codes and the plain text of its failures.
//
// A scene is a directory. It holds herdr (a link to the executable that plays
// it), scene.json (the world), scene.lock, calls.jsonl (the journal) and one
// input-TERMINAL.jsonl a terminal. There is no server: each call is a short
// process that reads the scene, acts, prints and exits, and what happens later
// (the Enter 300 ms after a prompt, the end of an agent start) is derived from
// time stamps when somebody looks. A call that waits looks again and again. So
// any number of processes share one scene.
//
// It plays versions 0.8 (protocol 20, as captured) and the one difference that
// matters of 0.9. It runs no terminals and no agents: a terminal shows the text
// that a test gives it, never what was typed, and an agent's status changes only
// when a test changes it, when it is started, or when an Enter answers a dialog.
// testdata/herdr says which captures it is held to.
package fakeherdr
