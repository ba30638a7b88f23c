/* What configure found out about the system: nothing that tests ask for. */
