//! Who may vouch for a module, and whether somebody does. Everything is verified offline; nothing is fetched here.
