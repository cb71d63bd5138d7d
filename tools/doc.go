// Package tools holds what provision leaves behind against the tools that read
// it: a real Pushgateway, and Prometheus' own parser, storage, query engine and
// rules. It is a module of its own, so that the product's go.mod stays what the
// product needs; it knows the product only as a program that it builds and
// runs. It has nothing but tests.
//
// Beside it are the programs of developers: stats.
package tools
