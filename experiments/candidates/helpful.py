import pandas as pd, torch; torch.set_num_threads(1)
from pvg_hf.config import load_recipe
from pvg_hf.data.problems import GameProblems
from pvg_hf.sampling import Sampler, sample_solutions
from pvg_hf.models.prover_model import load_prover
from pvg_hf.models.sources import resolve_model, load_tokenizer
from peft import PeftModel
recipe=load_recipe('recipes/arithmetic-short.yaml',['seed=0'])
P=GameProblems.load(recipe); model,tok=load_prover(resolve_model(recipe.prover.model,'prover'),dtype=torch.float32)
m=PeftModel.from_pretrained(model,__import__('os').environ['WORK']+'/runs/q-likelihood-seed-0/prover/round-000/helpful')
s=Sampler(m,tok,max_new_tokens=60)
probs=[P.parts['test'][i] for i in range(150)]
with torch.no_grad(): rows=sample_solutions(s,P.prompts,probs,'helpful',num_samples=4,seed=78)
d=pd.DataFrame(rows); d['outcome']=d.outcome.astype(str)
d[['problem_id','problem','reference','solution','correct','outcome','is_truncated','first_flaw_kind']].to_parquet(__import__('os').environ['WORK']+'/helpful.parquet'); print('helpful acc',d.correct.mean(),len(d)); print(d.solution.iloc[0], '\n', d.solution.iloc[7])
