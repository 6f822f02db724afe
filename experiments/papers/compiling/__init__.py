"""What compiling and tuning gain: every optimizer on a real LM and real questions, at equal budgets."""
