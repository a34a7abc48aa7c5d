import sys; import pandas as pd, torch
torch.set_num_threads(1)
from pvg_hf.config import load_recipe
from pvg_hf.data.problems import GameProblems
from pvg_hf.sampling import Sampler, sample_solutions
from pvg_hf.models.prover_model import load_prover
from pvg_hf.models.sources import resolve_model
part,n,k,out=sys.argv[1],int(sys.argv[2]),int(sys.argv[3]),sys.argv[4]
recipe=load_recipe('recipes/arithmetic-short.yaml',['seed=0'])
P=GameProblems.load(recipe); model,tok=load_prover(resolve_model(recipe.prover.model,'prover'),dtype=torch.float32)
s=Sampler(model,tok,max_new_tokens=60)
probs=[P.parts[part][i] for i in range(min(n,len(P.parts[part])))]
with torch.no_grad(): rows=sample_solutions(s,P.prompts,probs,'sneaky',num_samples=k,seed=77)
d=pd.DataFrame(rows); d['outcome']=d.outcome.astype(str)
d=d[['problem_id','problem','reference','solution','correct','outcome','is_truncated','first_flaw_kind']]; d.to_parquet(out); print(d.correct.mean(), d.outcome.value_counts(), len(d))
